package import Seams

/// A fault of a simulated world, as a value; the driver of the world draws and applies it.
///
/// A fault that needs a running process does nothing on a host without one.
package enum Fault: Hashable, Sendable {
    // The network. Hosts are named by their addresses.

    /// Blocks the links between hosts of different groups; hosts in no group reach all hosts.
    case split([[String]])
    /// Blocks the link in one direction.
    case oneWay(from: String, to: String)
    /// Delays data from `from` to `to` for this long, then delivers all of it at once.
    case clog(from: String, to: String, nanoseconds: UInt64)
    /// Adds this delay to data from `from` to `to`.
    case slow(from: String, to: String, nanoseconds: UInt64)
    /// Resets the connections between two hosts.
    case cutConnections(String, String)
    /// Refuses new connections to the host.
    case refuseConnects(String)
    /// Makes connection attempts to the host time out.
    case hangConnects(String)
    /// Removes all network faults.
    case healNetwork

    // Machines and processes.

    /// Kills the process (SIGKILL).
    case crash(String)
    /// Kills the process and drops unsynced writes at random.
    case powerCut(String)
    /// `crash` at the given changing disk operation from now, so in the middle of a commit.
    case crashAtDisk(String, operations: Int)
    /// `powerCut` at the given changing disk operation from now.
    case powerCutAtDisk(String, operations: Int)
    /// SIGSTOP.
    case freeze(String)
    /// SIGCONT.
    case thaw(String)
    /// SIGSTOP in the middle of a reactor's turn, right after it read the clock, and SIGCONT after
    /// this time. Counts the turns that read the clock.
    case stopInTurn(String, turns: Int, nanoseconds: UInt64)
    /// Adds this time to each work item of the lanes whose names have the prefix `lanes`; 0 ends
    /// it.
    case slowLane(String, lanes: String, nanoseconds: UInt64)

    /// Ends one child of the host's process: at once, or in the middle of its next output.
    case endChild(String, ChildEnd, isMidOutput: Bool)
    /// Adds this time to all that the children of the host's process send; 0 ends it.
    case slowChildren(String, nanoseconds: UInt64)

    // Disks.

    /// Refuses every growth of a file; false ends it.
    case diskFull(String, Bool)
    /// Adds this time to every operation; 0 ends it.
    case diskSlow(String, nanoseconds: UInt64)
    /// Makes this many of a thousand operations fail; 0 ends it.
    case diskError(String, perMille: Int)
    /// Flips one bit in a file whose name has this suffix.
    case flippedByte(String, suffix: String)

    // Clocks.

    /// Sets the wall clock forward or back.
    case clockJump(String, nanoseconds: Int64)
    /// Runs the clocks too fast by this many parts per million; 0 ends it.
    case clockRate(String, millionths: Int64)
    /// Stops the monotonic clock until `clockRate`.
    case clockFreeze(String)
}
