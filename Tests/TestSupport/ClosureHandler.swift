package import Bytes
package import Seams

/// A connection handler made of closures.
package final class ClosureHandler: ConnectionHandler {
    package typealias Step = (ByteView, ByteWriter) -> ReceiveProgress

    private let onReceive: Step
    private let onWake: Step
    private let onClosed: () -> Void

    /// A handler that calls these closures; without `wake`, a wakeup calls `receive`.
    package init(
        receive: @escaping Step,
        wake: Step? = nil,
        closed: @escaping () -> Void = {}
    ) {
        onReceive = receive
        onWake = wake ?? receive
        onClosed = closed
    }

    /// Another handler whose end is reported.
    package convenience init(
        over handler: any ConnectionHandler,
        closed: @escaping () -> Void
    ) {
        self.init(receive: handler.receive, wake: handler.wake) {
            handler.closed()
            closed()
        }
    }

    /// A handler that echoes its input.
    package static func echo() -> ClosureHandler {
        ClosureHandler { input, output in
            output.append(input)
            return ReceiveProgress(consumed: input.count, next: .receive)
        }
    }

    /// A handler that ignores its input.
    package static func sink(closed: @escaping () -> Void = {}) -> ClosureHandler {
        ClosureHandler(
            receive: { input, _ in ReceiveProgress(consumed: input.count, next: .receive) },
            closed: closed
        )
    }

    package func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        onReceive(input, output)
    }

    package func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        onWake(input, output)
    }

    package func closed() { onClosed() }
}
