internal import Vocabulary

/// The part of a command's time that the log of slow commands names.
enum CommandPhase: Int, CaseIterable {
    /// From its arrival until it waited first: earlier commands of the same read, and its first attempt.
    case queue
    /// Attempts after a wait, with the locks of the vBucket.
    case execution
    /// A read from disk.
    case fetch
    /// The vBucket is being loaded after a start.
    case load
    /// The vBucket is handed over to another node.
    case handOver
    /// Memory for a large document.
    case room
    /// The acknowledgements of a durable write by other nodes.
    case replicate
    /// The commit of a durable write to this node's disk.
    case disk
    /// The check of a password.
    case login
    /// A command that another lane executes: a large document, a bucket flush.
    case lane

    /// Its word in the log.
    var name: String {
        switch self {
        case .queue: "queue"
        case .execution: "execution"
        case .fetch: "fetch"
        case .load: "load"
        case .handOver: "hand over"
        case .room: "room"
        case .replicate: "replicate"
        case .disk: "disk"
        case .login: "login"
        case .lane: "lane"
        }
    }
}

/// When a command that waits arrived, and how long it was in each phase.
struct RequestWait {
    /// The command's number in `CommandKind`.
    let kind: UInt8
    /// The vBucket of its document; nil if it has none.
    let vBucket: VBucketID?
    /// The arrival in monotonic nanoseconds.
    let start: UInt64
    /// The beginning of the present phase.
    private var since: UInt64
    private var phase = CommandPhase.queue
    private var nanoseconds = InlineArray<10, UInt64>(repeating: 0)

    init(kind: UInt8, vBucket: VBucketID?, start: UInt64) {
        self.kind = kind
        self.vBucket = vBucket
        self.start = start
        since = start
    }

    /// Ends the present phase; `cause` replaces it if the end of the wait showed another one.
    mutating func begin(_ next: CommandPhase, at now: UInt64, cause: CommandPhase? = nil) {
        nanoseconds[(cause ?? phase).rawValue] += now - min(now, since)
        (phase, since) = (next, now)
    }

    /// The phases that took a millisecond or more, for the log; call it after the last phase.
    var phases: String {
        let parts = CommandPhase.allCases.compactMap { phase -> String? in
            let time = nanoseconds[phase.rawValue]
            return time < 1_000_000 ? nil : "\(phase.name) \(time / 1_000_000)"
        }
        return parts.isEmpty ? "" : ": " + parts.joined(separator: ", ")
    }
}
