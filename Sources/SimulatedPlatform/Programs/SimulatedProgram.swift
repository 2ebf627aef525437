package import Bytes
internal import Seams

/// The code of a child process, which the simulator runs in its own thread.
///
/// It may be the shipped code of a program, or a few lines that answer as one; `SimulatedWorld`
/// knows it by the file's name.
///
///     world.install("divan-script") { console, arguments in ScriptProgram(console) }
package protocol SimulatedProgram: AnyObject {
    /// Handles all bytes not consumed yet and returns the number of consumed ones.
    ///
    /// Called when more bytes have arrived. Sends through the console that it was made with. A
    /// program that consumes nothing is one that does not read.
    func received(_ input: ByteView) -> Int
}

/// The interface of a simulated program to its process.
package final class ProgramConsole {
    /// The memory that the node sees.
    package var residentBytes: UInt64 = 8 << 20
    /// Whether the process has ended; it then has no effects.
    package private(set) var hasEnded = false
    private weak var child: SimulatedChild?

    init(_ child: SimulatedChild) {
        self.child = child
    }

    /// Sends bytes to the node.
    package func send(_ bytes: ByteView) { if !hasEnded { child?.programSent(bytes) } }

    /// Writes a line to the standard error.
    package func log(_ line: String) { if !hasEnded { child?.programLogged(line) } }

    /// Lets this much time pass before the effects that follow.
    package func spend(nanoseconds: UInt64) { if !hasEnded { child?.programSpent(nanoseconds) } }

    /// Closes the channel and continues.
    package func closeChannel() { if !hasEnded { child?.programClosed() } }

    /// Ends the process after all that it sent has arrived.
    package func exit(status: Int32) {
        if !hasEnded { child?.programEnded(.exited(status: status)) }
    }

    /// Ends the process by a signal, as a crash does.
    package func crash(signal: Int32) { if !hasEnded { child?.programEnded(.signalled(signal)) } }

    /// Ends all effects.
    func end() { hasEnded = true }
}
