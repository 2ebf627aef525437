internal import CJavaScriptCore

/// Ends the execution of an item that exceeds its CPU time.
///
/// JavaScriptCore calls back after each tick of CPU time while it executes; each callback costs
/// compiled code, so a tick is a quarter of the timeout. An item that was running at all ticks of
/// its timeout is ended: an exception that no author can catch. Hence an item ends between one
/// timeout and one and a quarter.
///
/// - Regular expressions and other native code are not interrupted (`ScriptWorker.Host`).
final class ExecutionWatch {
    private static let ticksMax = 4

    private let group: JSContextGroupRef
    private let cells: HarnessCells
    private var timeoutMilliseconds: UInt32 = 0
    private var seen: UInt32?
    private var ticks = 0

    /// Whether the last execution was ended.
    private(set) var hasTimedOut = false

    init(group: JSContextGroupRef, cells: HarnessCells) {
        self.group = group
        self.cells = cells
    }

    /// Must be called before each execution.
    func begin(timeoutMilliseconds: UInt32) {
        hasTimedOut = false
        seen = nil
        ticks = 0
        guard timeoutMilliseconds != self.timeoutMilliseconds else { return }
        self.timeoutMilliseconds = timeoutMilliseconds
        arm()
    }

    private func arm() {
        let seconds = Double(timeoutMilliseconds) / 1_000 / Double(ExecutionWatch.ticksMax)
        JSContextGroupSetExecutionTimeLimit(
            group,
            seconds,
            ExecutionWatch.tick,
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private static let tick: JSShouldTerminateCallback = { _, info in
        guard let info else { return true }
        return Unmanaged<ExecutionWatch>.fromOpaque(info).takeUnretainedValue().shouldEnd()
    }

    private func shouldEnd() -> Bool {
        if cells.item == seen {
            ticks += 1
        } else {
            seen = cells.item
            ticks = 0
        }
        if ticks >= ExecutionWatch.ticksMax {
            hasTimedOut = true
            return true
        }
        // Without this the limit would not apply again.
        arm()
        return false
    }
}
