import Bytes
import Seams

/// A handler that echoes its input.
final class EchoHandler: ConnectionHandler {
    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        output.append(input)
        return ReceiveProgress(consumed: input.count, next: .receive)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        ReceiveProgress(consumed: 0, next: .receive)
    }

    func closed() {}
}

/// A handler made of closures.
final class ScriptedHandler: ConnectionHandler, Sendable {
    typealias Step = @Sendable (ByteView, ByteWriter) -> ReceiveProgress

    let onReceive: Step
    let onWake: Step
    let onClosed: @Sendable () -> Void

    init(
        receive: @escaping Step,
        wake: @escaping Step = { _, _ in ReceiveProgress(consumed: 0, next: .receive) },
        closed: @escaping @Sendable () -> Void = {}
    ) {
        onReceive = receive
        onWake = wake
        onClosed = closed
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        onReceive(input, output)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        onWake(input, output)
    }

    func closed() { onClosed() }
}

/// Frames of a 4-byte length and a payload, and a handler's step that echoes complete frames.
enum Frames {
    static func frame(_ payload: [UInt8]) -> [UInt8] {
        withUnsafeBytes(of: UInt32(payload.count).bigEndian) { Array($0) } + payload
    }

    /// A reply with the number of received bytes only.
    static func short(_ count: Int) -> [UInt8] {
        withUnsafeBytes(of: UInt32(count).bigEndian) { Array($0) }
    }

    static func echo(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        var consumed = 0
        while input.count - consumed >= 4 {
            let rest = input.dropFirst(consumed)
            let length = 4 + Int(rest.bigEndian(at: 0, as: UInt32.self))
            guard rest.count >= length else {
                return ReceiveProgress(consumed: consumed, next: .receive, needed: length)
            }
            output.append(rest.slice(0, length))
            consumed += length
            if output.count >= 256 << 10 && consumed < input.count {
                return ReceiveProgress(consumed: consumed, next: .drain)
            }
        }
        return ReceiveProgress(consumed: consumed, next: .receive)
    }
}

/// Values of another thread, which a test waits for.
final class Signal<Value: Sendable>: Sendable {
    private let state = Guarded<[Value]>([])

    func send(_ value: Value) { state.withLock { $0.append(value) } }

    /// A copy that shares no storage: ThreadSanitizer does not see that a shared copy is dropped,
    /// and reports the next `send` as a race with its reader.
    var values: [Value] { state.withLock { $0.map { $0 } } }

    /// The values so far once there are `count` of them; fewer after 30 s.
    func wait(_ count: Int = 1) async -> [Value] {
        for _ in 0..<3_000 {
            // Counted without a copy, for the same reason.
            if state.withLock({ $0.count >= count }) { break }
            try? await Task.sleep(for: .milliseconds(10))
        }
        return values
    }
}

/// A trace that stores its lines.
final class TestTrace: Trace {
    let threshold = Severity.debug
    let lines = Signal<String>()

    func log(_ severity: Severity, _ module: String, _ message: String) {
        lines.send("\(severity) \(module): \(message)")
    }
}
