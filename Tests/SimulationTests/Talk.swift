import Bytes
import Seams

/// A handler whose test provides its behavior, and that records its calls.
final class Talker: ConnectionHandler, @unchecked Sendable {
    typealias Act = (Talker, ByteView, ByteWriter) -> ReceiveProgress

    let port: any ConnectionPort
    var inputs: [[UInt8]] = []
    var wakes = 0
    var isClosed = false
    var outbox: [UInt8] = []
    private let act: Act

    /// Consumes all input and sends the outbox.
    @Sendable static func listening(
        _ talker: Talker,
        _ input: ByteView,
        _ output: ByteWriter
    ) -> ReceiveProgress {
        talker.inputs.append(input.bytes)
        output.append(talker.outbox)
        talker.outbox = []
        return ReceiveProgress(consumed: input.count, next: .receive)
    }

    init(_ port: any ConnectionPort, _ act: @escaping Act = Talker.listening) {
        self.port = port
        self.act = act
    }

    var heard: [UInt8] { inputs.flatMap(\.self) }

    func send(_ bytes: [UInt8]) {
        outbox += bytes
        port.wake()
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        act(self, input, output)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        wakes += 1
        return act(self, input, output)
    }

    func closed() { isClosed = true }
}
