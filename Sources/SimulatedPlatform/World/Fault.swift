/// What can go wrong in a simulated world, as a value: whoever drives the world draws and applies it.
///
/// Times are in nanoseconds. A fault of a host without a process that needs one does nothing.
package enum Fault: Hashable, Sendable {
    // The network. Hosts are named by their addresses.

    /// Hosts of different groups do not hear each other; those in no group hear everybody.
    case split([[String]])
    /// What `from` sends does not reach `to`.
    case oneWay(from: String, to: String)
    /// What `from` sends to `to` waits so long, then all goes at once.
    case clog(from: String, to: String, nanoseconds: UInt64)
    /// What `from` sends to `to` takes so much longer.
    case slow(from: String, to: String, nanoseconds: UInt64)
    /// Connections between two hosts are reset.
    case cutConnections(String, String)
    /// New connections to the host are refused, or hang.
    case refuseConnects(String)
    case hangConnects(String)
    /// Every link is as at the beginning.
    case healNetwork

    // Machines and processes.

    case crash(String)
    case powerCut(String)
    /// The same in the middle of what the disk will be doing: at the so-manieth operation from now.
    case crashAtDisk(String, operations: Int)
    case powerCutAtDisk(String, operations: Int)
    /// SIGSTOP and SIGCONT.
    case freeze(String)
    case thaw(String)
    /// SIGSTOP in the middle of a reactor's work: right after it has looked at the clock, the
    /// so-manieth that does; and SIGCONT.
    case stopInTurn(String, turns: Int, nanoseconds: UInt64)
    /// Work on lanes whose names begin so takes longer; 0 ends it.
    case slowLane(String, lanes: String, nanoseconds: UInt64)

    // Disks.

    case diskFull(String, Bool)
    /// Every operation takes so much longer; 0 ends it.
    case diskSlow(String, nanoseconds: UInt64)
    /// So many of a thousand operations fail.
    case diskError(String, perMille: Int)
    /// One byte of a file whose name ends so is not what was written.
    case flippedByte(String, suffix: String)

    // Clocks.

    /// The wall clock is set forth or back.
    case clockJump(String, nanoseconds: Int64)
    /// The clocks run too fast by so many millionths.
    case clockRate(String, millionths: Int64)
    case clockFreeze(String)
}
