internal import Bytes
internal import Seams
internal import Synchronization

/// The clients' connections that stream changes of one bucket.
///
/// A name belongs to one connection: a new connection of the same name closes the older one, whose
/// client may have lost it without a notice.
final class ProducerNameTable: Sendable {
    /// One connection, with the numbers that its own reactor keeps.
    final class Entry: Sendable {
        let name: String
        let port: any ConnectionPort
        let streams = Atomic<Int>(0)
        let items = Atomic<UInt64>(0)
        let bytes = Atomic<UInt64>(0)
        let unacknowledged = Atomic<Int>(0)

        init(name: String, port: any ConnectionPort) {
            self.name = name
            self.port = port
        }
    }

    private let entries = Guarded<[String: Entry]>([:])

    /// Registers a connection, and closes the one that had its name.
    func add(_ entry: Entry) {
        let before = entries.withLock { entries in
            defer { entries[entry.name] = entry }
            return entries[entry.name]
        }
        before?.port.close()
    }

    func remove(_ entry: Entry) {
        entries.withLock { entries in
            if entries[entry.name] === entry { entries[entry.name] = nil }
        }
    }

    /// All connections, by name.
    var all: [Entry] {
        entries.withLock { Array($0.values) }.sorted { $0.name < $1.name }
    }
}
