internal import Bytes
internal import Seams
internal import Wire

/// Logs in once to get the cluster map, and closes the connection.
final class MapFinder: ConnectionHandler {
    private var login: Login
    private let decoder = FrameDecoder()
    private let tell: @Sendable (Result<[UInt8], BenchError>) -> Void

    init(_ login: Login, _ tell: @escaping @Sendable (Result<[UInt8], BenchError>) -> Void) {
        self.login = login
        self.tell = tell
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        login.begin(output)
        return ReceiveProgress(consumed: 0, next: .receive)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        switch decoder.next(in: input) {
        case .incomplete(let needed):
            return ReceiveProgress(consumed: 0, next: .receive, needed: needed)
        case .frame(let frame):
            do throws(BenchError) {
                switch try login.take(frame, output) {
                case .more: return ReceiveProgress(consumed: frame.byteCount, next: .receive)
                case .done(let configuration): tell(.success(configuration))
                }
            } catch {
                tell(.failure(error))
            }
        case .valueTooBig, .invalid:
            tell(.failure(BenchError("the server does not speak the memcached binary protocol")))
        }
        return ReceiveProgress(consumed: input.count, next: .close)
    }

    func broken(_ reason: String) { tell(.failure(BenchError(reason))) }

    func closed() { tell(.failure(BenchError("the server closed the connection at login"))) }
}
