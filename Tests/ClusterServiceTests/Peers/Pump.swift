import Bytes
import Seams
import Vocabulary

/// The handler of a stream that sends predictable bytes, in messages of many sizes, and checks those that
/// it receives.
final class Pump: StreamHandler, Sendable {
    struct State: Sendable {
        var sent = 0
        var received = 0
        var mistakes = 0
        var turn = 0
        var isClosed = false
        var isHeld = false
    }

    /// A prime, so that no boundary of a message coincides with the period.
    static let period = 65_521
    /// Two periods and the largest piece: it contains any piece of the stream.
    static let pattern = (0..<(period + (4 << 20)))
        .map { UInt8(truncatingIfNeeded: ($0 % period) &* 167 &+ ($0 % period) >> 8) }
    static let sizes = [1, 100, 5_000, 70_000, 262_144, 262_145, 300_000, 3 << 20]

    let port: any StreamPort
    let state = Guarded(State())
    private let sendsAfter: Int
    private let total: Int

    /// Sends `total` bytes once it has received `sendsAfter`.
    init(_ port: any StreamPort, sendsAfter: Int, total: Int, isHeld: Bool = false) {
        self.port = port
        self.sendsAfter = sendsAfter
        self.total = total
        state.withLock { $0.isHeld = isHeld }
    }

    /// Lets a held pump receive.
    func release() {
        state.withLock { $0.isHeld = false }
        port.wake()
    }

    func receive(_ message: ByteView) -> StreamReception {
        state.withLock { state in
            if state.isHeld { return .paused }
            Pump.pattern.withUnsafeBytes { bytes in
                let expected = ByteView(bytes).slice(state.received % Pump.period, message.count)
                if !message.equals(expected) { state.mistakes += 1 }
            }
            state.received += message.count
            return .handled
        }
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        state.withLock { state in
            guard state.received >= sendsAfter else { return .asleep }
            while output.room > 0, state.sent < total {
                let size = min(Pump.sizes[state.turn % Pump.sizes.count], total - state.sent)
                state.turn += 1
                let start = state.sent % Pump.period
                Pump.pattern.withUnsafeBytes { bytes in
                    let piece = ByteView(bytes).slice(start, size)
                    output.append { $0.append(piece) }
                }
                state.sent += size
            }
            return state.sent < total ? .again : .asleep
        }
    }

    func closed(_ reason: String?) { state.withLock { $0.isClosed = true } }
}
