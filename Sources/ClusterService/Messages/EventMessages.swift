internal import Bytes
internal import Seams

/// Requests the newest events of another node's event log.
struct EventsCall: PeerPayload, Hashable {
    /// Requests only events from this wall-clock time on.
    var sinceMilliseconds: UInt64
    var countMax: Int

    init(sinceMilliseconds: UInt64, countMax: Int) {
        self.sinceMilliseconds = sinceMilliseconds
        self.countMax = countMax
    }

    init?(_ reader: inout ByteReader) {
        guard let since = reader.leb128(), let count = reader.leb(Int.self) else { return nil }
        self.init(sinceMilliseconds: since, countMax: count)
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: sinceMilliseconds)
        writer.append(leb: countMax)
    }
}

/// The requested events, oldest first.
struct EventsAnswer: PeerPayload, Hashable {
    var entries: [EventLog.Entry]

    init(entries: [EventLog.Entry]) { self.entries = entries }

    init?(_ reader: inout ByteReader) {
        guard let entries = reader.all(EventLog.Entry.self) else { return nil }
        self.init(entries: entries)
    }

    func append(to writer: ByteWriter) { writer.append(all: entries) }
}

extension EventLog.Entry: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let severity = reader.leb(Int.self).flatMap(Severity.init(rawValue:)),
            let kind = reader.text().flatMap(EventLog.Kind.init(rawValue:)),
            let text = reader.text(), let milliseconds = reader.leb128(),
            let index = reader.leb128()
        else { return nil }
        self.init(
            severity: severity,
            kind: kind,
            text: text,
            milliseconds: milliseconds,
            index: index
        )
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: severity.rawValue)
        writer.append(counted: kind.rawValue)
        writer.append(counted: text)
        writer.append(leb: milliseconds)
        writer.append(leb: index)
    }
}
