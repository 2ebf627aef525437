internal import Bytes
internal import Seams

/// Closes a connection that arrives after the data service was released.
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
