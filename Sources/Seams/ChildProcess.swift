package import Bytes

/// Starts child processes: programs of this package that run code the node does not trust.
///
/// A child has one channel to the node, a stream of bytes in both directions, as descriptor 3, and
/// lines on its standard error. It inherits no other open file, no memory and no environment, and
/// it ends when the node ends.
package protocol ChildProcesses: Sendable {
    /// Why a program cannot be started: it is missing, this user may not run it, or it cannot be confined.
    ///
    /// - Parameters:
    ///   - name: The program's name, as in `ChildProgram`.
    ///   - mustFilter: Whether the program ends unless the kernel filters its system calls.
    /// - Returns: Nil if there is no such reason.
    func obstacle(to name: String, mustFilter: Bool) -> ChildError?
    /// Starts a program, without waiting for it.
    ///
    /// - Parameters:
    ///   - program: What to start; bytes may be sent to it at once.
    ///   - lane: Where the handler is called. Calls are lost if the lane stops before the child has
    ///     ended.
    ///   - handler: Retained until its `ended` was called.
    /// - Returns: The child; if it cannot be started, `ended` has the reason.
    func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess
}

/// A program to start, and the memory that its channel may occupy.
package struct ChildProgram: Sendable {
    /// The name of a file in the directory of the running program; not a path.
    package let name: String
    package let arguments: [String]
    /// Bytes that may wait in the node until the child reads them, beyond the system's own buffer.
    package let outputBytesMax: Int
    /// Bytes that the handler may leave unconsumed: the largest frame of the child.
    package let inputBytesMax: Int

    package init(
        _ name: String,
        arguments: [String] = [],
        outputBytesMax: Int = 1 << 20,
        inputBytesMax: Int = 1 << 20
    ) {
        self.name = name
        self.arguments = arguments
        self.outputBytesMax = outputBytesMax
        self.inputBytesMax = inputBytesMax
    }
}

/// A started child.
///
/// All calls may come from any thread, and never wait.
package protocol ChildProcess: AnyObject, Sendable {
    /// Sends bytes, all or none.
    ///
    /// - Returns: Whether they were accepted. Accepted bytes arrive in order, unless the child ends
    ///   or closes its channel.
    func send(_ bytes: ByteView) -> ChildSendOutcome
    /// Ends the child (SIGKILL); no effect if it has ended.
    func kill()
    /// The resident memory of the child; nil if it does not run.
    var residentBytes: UInt64? { get }
}

/// The result of sending bytes to a child.
package enum ChildSendOutcome: Hashable, Sendable {
    case accepted
    /// The child does not read and `outputBytesMax` is used up. `drained` is called when all
    /// accepted bytes have left the node.
    case full
    /// The child has ended or has closed its channel.
    case closed
}

/// Receives what a child sends; called on the lane that the start named, one call at a time.
package protocol ChildHandler: AnyObject, Sendable {
    /// Handles `input`, all bytes not consumed yet, and returns the number of consumed ones.
    ///
    /// Called again when more bytes have arrived; unconsumed bytes come first. A child that sends
    /// more than `inputBytesMax` of which none is consumed is killed.
    func received(_ input: ByteView) -> Int
    /// A line of the child's standard error or output, cut to `ChildLines.bytesMax`.
    func logged(_ line: String)
    /// All bytes have left the node since a `send` returned `full`.
    func drained()
    /// The child has closed its channel and still runs: it sends no more, and receives no more.
    func closed()
    /// The child has ended. This is the last call, after all bytes and lines that it sent.
    func ended(_ end: ChildEnd)
}

/// How a child ended.
package enum ChildEnd: Hashable, Sendable {
    case exited(status: Int32)
    /// By a signal; 0 if the system does not know it.
    case signalled(Int32)
    case notStarted(ChildError)
}

/// Why a child could not be started.
package struct ChildError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// There is no such program: the installation is incomplete.
        case missing
        /// The file is there, and this user may not run it.
        case denied
        /// The kernel does not filter the system calls of the program.
        case unfiltered
        /// Processes, memory or descriptors are used up; a later start may succeed.
        case noResources
        /// The node is stopping.
        case stopping
        case other
    }

    package let code: Code
    /// A sentence for an operator: what failed, why, and what to do.
    package let description: String

    package init(code: Code, description: String) {
        self.code = code
        self.description = description
    }
}
