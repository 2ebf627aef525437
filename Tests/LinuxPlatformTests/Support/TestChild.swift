import Bytes
import LinuxPlatform
import Seams
import TestSupport

/// A handler that records its calls, and how a shell is started with it.
final class TestChild: ChildHandler {
    let bytes = Guarded<[UInt8]>([])
    let lines = Signal<String>()
    let drains = Signal<Void>()
    let closes = Signal<Void>()
    let ends = Signal<ChildEnd>()
    /// Calls after `ended`; a child must not make any.
    let lateCalls = Signal<String>()
    /// The handler's `received` waits so long, as a busy lane does.
    let delayMicroseconds: UInt32
    /// Whether received bytes are left unconsumed.
    let keepsInput: Bool

    init(delayMicroseconds: UInt32 = 0, keepsInput: Bool = false) {
        self.delayMicroseconds = delayMicroseconds
        self.keepsInput = keepsInput
    }

    func received(_ input: ByteView) -> Int {
        noteCall("received")
        if delayMicroseconds > 0 { pauseThread(microseconds: delayMicroseconds) }
        if keepsInput { return 0 }
        bytes.withLock { $0.append(contentsOf: input.bytes) }
        return input.count
    }

    func logged(_ line: String) {
        noteCall("logged")
        lines.send(line)
    }

    func drained() {
        noteCall("drained")
        drains.send(())
    }

    func closed() {
        noteCall("closed")
        closes.send(())
    }

    func ended(_ end: ChildEnd) {
        noteCall("ended")
        ends.send(end)
    }

    private func noteCall(_ name: String) {
        if !ends.values.isEmpty { lateCalls.send(name) }
    }

    var text: String { bytes.withLock { String(decoding: $0, as: UTF8.self) } }

    var received: Int { bytes.withLock { $0.count } }
}

extension ChildProcesses {
    /// Starts a shell with a script; descriptor 3 is its channel.
    func shell(
        _ script: String,
        on lane: any Lane,
        _ handler: TestChild,
        outputBytesMax: Int = 1 << 20,
        inputBytesMax: Int = 1 << 20
    ) -> any ChildProcess {
        let program = ChildProgram(
            "sh",
            arguments: ["-c", script],
            outputBytesMax: outputBytesMax,
            inputBytesMax: inputBytesMax
        )
        return start(program, on: lane, handler)
    }
}

extension ChildProcess {
    func send(text: String) -> ChildSendOutcome { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) -> ChildSendOutcome {
        bytes.withUnsafeBytes { send(ByteView($0)) }
    }
}
