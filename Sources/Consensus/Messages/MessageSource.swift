internal import Bytes
internal import Vocabulary

/// Reads the parts of a message, one after the other.
struct MessageSource {
    private var reader: ByteReader

    init(_ view: ByteView) {
        reader = ByteReader(view)
    }

    var isAtEnd: Bool { reader.isAtEnd }
    var bytesLeft: Int { reader.rest.count }

    mutating func byte() throws(MessageDecodingError) -> UInt8 {
        guard let byte = reader.bigEndian(UInt8.self) else { throw .cutShort }
        return byte
    }

    mutating func node() throws(MessageDecodingError) -> NodeNumber {
        guard let number = reader.bigEndian(UInt16.self) else { throw .cutShort }
        return NodeNumber(number)
    }

    mutating func number() throws(MessageDecodingError) -> UInt64 {
        if let number = reader.leb128() { return number }
        // Ten bytes or more, yet no end of the number, or more than 64 bits.
        throw bytesLeft >= 10 ? .malformed : .cutShort
    }

    /// Reads how many items follow, each of `least` bytes or more.
    mutating func count(ofBytes least: Int) throws(MessageDecodingError) -> Int {
        let count = try number()
        guard count <= UInt64(bytesLeft / least) else { throw .cutShort }
        return Int(count)
    }

    mutating func flags() throws(MessageDecodingError) -> (Bool, Bool) {
        let byte = try byte()
        guard byte < 4 else { throw .malformed }
        return (byte & 1 != 0, byte & 2 != 0)
    }

    mutating func position() throws(MessageDecodingError) -> LogPosition {
        let term = try number()
        return LogPosition(term: term, index: try number())
    }

    mutating func append() throws(MessageDecodingError) -> Message.Append {
        let previous = try position()
        let commit = try number()
        let count = try count(ofBytes: 3)
        var entries: [LogEntry] = []
        var before = previous.index
        for _ in 0..<count {
            let entry = try entry()
            guard before < .max, entry.index == before + 1 else { throw .malformed }
            before = entry.index
            entries.append(entry)
        }
        return Message.Append(previous: previous, entries: entries, commit: commit)
    }

    mutating func entry() throws(MessageDecodingError) -> LogEntry {
        let position = try position()
        let kind = try byte()
        let payload: LogEntry.Payload
        switch kind {
        case 0: payload = .empty
        case 1:
            let length = try count(ofBytes: 1)
            guard let bytes = reader.bytes(length) else { throw .cutShort }
            payload = .command(bytes.bytes)
        case 2: payload = .configuration(try configuration())
        default: throw .unknownKind(kind)
        }
        return LogEntry(term: position.term, index: position.index, payload: payload)
    }

    mutating func configuration() throws(MessageDecodingError) -> VoterConfiguration {
        var configuration = VoterConfiguration(voters: try nodes())
        configuration.outgoing = try nodes()
        configuration.learners = try nodes()
        configuration.learnersNext = try nodes()
        let (leavesByItself, second) = try flags()
        guard !second else { throw .malformed }
        configuration.leavesByItself = leavesByItself
        return configuration
    }

    private mutating func nodes() throws(MessageDecodingError) -> [NodeNumber] {
        let count = try count(ofBytes: 2)
        var nodes: [NodeNumber] = []
        for _ in 0..<count {
            let next = try node()
            // Equal configurations are equal bytes: the list is sorted and repeats no node.
            if let last = nodes.last, last >= next { throw .malformed }
            nodes.append(next)
        }
        return nodes
    }
}

extension ByteWriter {
    func append(flags first: Bool, _ second: Bool) {
        append(UInt8((first ? 1 : 0) + (second ? 2 : 0)))
    }
}

extension LogPosition {
    func append(to writer: ByteWriter) {
        LEB128.append(term, to: writer)
        LEB128.append(index, to: writer)
    }
}

extension LogEntry {
    func append(to writer: ByteWriter) {
        position.append(to: writer)
        switch payload {
        case .empty: writer.append(0)
        case .command(let bytes):
            writer.append(1)
            LEB128.append(UInt64(bytes.count), to: writer)
            writer.append(bytes)
        case .configuration(let configuration):
            writer.append(2)
            configuration.append(to: writer)
        }
    }
}

extension VoterConfiguration {
    func append(to writer: ByteWriter) {
        for nodes in [voters, outgoing, learners, learnersNext] {
            LEB128.append(UInt64(nodes.count), to: writer)
            for node in nodes { writer.append(bigEndian: node.value) }
        }
        writer.append(flags: leavesByItself, false)
    }
}
