import Bytes
import Replication
import TestWorld
import Vocabulary

/// The pump of a connection's streams, compared with a model: a removed stream is never stepped, no
/// window is exceeded by more than one step, and a stream with work and credit is stepped in the end.
enum PumpTarget {
    private struct Stream {
        let window: Int
        var hasWork = true
    }

    private static let windowMax = 200
    private static let turnMax = 100
    /// The bytes by which the last message of a step may exceed its credit.
    private static let excessMax = 15

    /// The first byte bounds the admitted streams; each further one is an operation.
    static func run(_ view: ByteView) {
        var source = ByteSource(bytes: view.bytes[...])
        let admitted = Int(source.byte() % 4)
        var pump = StreamPump(turnBytes: turnMax, admittedMax: admitted == 0 ? nil : admitted)
        let windows = (0..<2).map { _ in pump.addWindow(bytesMax: windowMax) }
        var outstanding = [0, 0]
        var streams: [StreamPump.Handle: Stream] = [:]
        while !source.isEmpty {
            let operation = source.byte()
            switch operation % 8 {
            case 0 where streams.count < 16:
                let window = Int(operation >> 7)
                streams[pump.add(window: windows[window])] = Stream(window: window)
            case 1:
                guard let handle = streams.keys.min(by: { $0.number < $1.number }) else { continue }
                streams[handle] = nil
                pump.remove(handle)
                pump.wake(handle)
            case 2:
                guard let handle = streams.keys.max(by: { $0.number < $1.number }) else { continue }
                streams[handle]?.hasWork = true
                pump.wake(handle)
            case 3:
                let window = Int(operation >> 7)
                let bytes = min(Int(source.byte()), outstanding[window])
                outstanding[window] -= bytes
                let isPossible = pump.acknowledge(bytes, window: windows[window])
                require(isPossible, "what was sent can be acknowledged")
            default: step(&pump, &streams, &outstanding, operation, source.byte())
            }
        }
        for window in windows.indices {
            _ = pump.acknowledge(outstanding[window], window: windows[window])
        }
        for handle in streams.keys { pump.wake(handle) }
        while let handle = pump.next() {
            streams[handle]?.hasWork = false
            pump.finish(handle, .asleep, credit: turnMax, sent: 0, isReading: false)
        }
        require(!streams.values.contains { $0.hasWork }, "every stream with work is stepped")
    }

    private static func step(
        _ pump: inout StreamPump,
        _ streams: inout [StreamPump.Handle: Stream],
        _ outstanding: inout [Int],
        _ operation: UInt8,
        _ choice: UInt8
    ) {
        guard let handle = pump.next() else { return }
        guard let window = streams[handle]?.window else {
            return require(false, "a removed stream is not stepped")
        }
        let credit = pump.credit(of: handle)
        require(credit <= turnMax, "a step has the credit of one turn")
        require(outstanding[window] <= windowMax + excessMax, "a window bounds its streams")
        let sent = credit == 0 ? 0 : min(Int(choice & 0x7f), credit + excessMax)
        outstanding[window] += sent
        let isAsleep = credit > 0 && choice >> 7 == 1
        streams[handle]?.hasWork = !isAsleep
        pump.finish(
            handle,
            credit == 0 ? .awaitsCredit : isAsleep ? .asleep : .again,
            credit: credit,
            sent: sent,
            isReading: false,
            isBusy: operation >> 7 == 1
        )
    }
}
