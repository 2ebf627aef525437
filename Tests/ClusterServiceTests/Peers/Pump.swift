import Bytes
import Seams

/// An inner handler that sends a predictable stream, and checks the stream that it receives.
final class Pump: ConnectionHandler, @unchecked Sendable {  // tidy:allow one reactor's thread
    struct State: Sendable {
        var sent = 0
        var received = 0
        var mistakes = 0
        var isClosed = false
        var isHeld = false
    }

    /// A prime, so that no boundary of the stream coincides with the period.
    static let period = 65_521
    /// Two periods and the largest piece: it contains any piece of the stream.
    static let pattern = (0..<(period + (4 << 20)))
        .map { UInt8(truncatingIfNeeded: ($0 % period) &* 167 &+ ($0 % period) >> 8) }
    static let sizes = [1, 100, 5_000, 70_000, 262_144, 262_145, 300_000, 3 << 20]

    let port: any ConnectionPort
    let state = Guarded(State())
    private let sendsAfter: Int
    private let total: Int
    private var turn = 0

    /// Sends `total` bytes once it has received `sendsAfter`.
    init(_ port: any ConnectionPort, sendsAfter: Int, total: Int, isHeld: Bool = false) {
        self.port = port
        self.sendsAfter = sendsAfter
        self.total = total
        state.withLock { $0.isHeld = isHeld }
        port.wake()
    }

    /// Lets a held pump continue to read.
    func release() {
        state.withLock { $0.isHeld = false }
        port.wake()
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var now = state.withLock { $0 }
        if now.isHeld { return ReceiveProgress(consumed: 0, next: .pause) }
        // Leaves a few bytes unconsumed wherever possible.
        let isEnd = now.received + input.count >= total
        let kept = input.count > 20_000 && !isEnd ? input.count % 977 : 0
        let taken = input.slice(0, input.count - kept)
        check(taken, &now)
        var next = ReceiveProgress.Next.receive
        if now.received >= sendsAfter && now.sent < total {
            let size = min(Pump.sizes[turn % Pump.sizes.count], total - now.sent)
            turn += 1
            Pump.pattern.withUnsafeBytes { bytes in
                output.append(ByteView(bytes).slice(now.sent % Pump.period, size))
            }
            now.sent += size
            next = .drain
        }
        let result = now
        state.withLock { state in
            let isHeld = state.isHeld
            state = result
            state.isHeld = isHeld
        }
        let needed = next == .receive && kept > 0 ? kept + 1 : 0
        return ReceiveProgress(consumed: taken.count, next: next, needed: needed)
    }

    private func check(_ input: ByteView, _ now: inout State) {
        var offset = 0
        Pump.pattern.withUnsafeBytes { bytes in
            while offset < input.count {
                let length = min(input.count - offset, Pump.sizes[7])
                let expected = ByteView(bytes).slice(now.received % Pump.period, length)
                if !input.slice(offset, length).equals(expected) { now.mistakes += 1 }
                now.received += length
                offset += length
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() { state.withLock { $0.isClosed = true } }
}
