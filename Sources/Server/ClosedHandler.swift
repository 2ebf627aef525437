internal import Bytes
internal import Seams

/// What serves a connection that came when nobody was there any more.
final class ClosedHandler: ConnectionHandler {
    init(_ port: any ConnectionPort) { port.close() }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        ReceiveProgress(consumed: input.count, next: .close)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        ReceiveProgress(consumed: input.count, next: .close)
    }

    func closed() {}
}
