internal import Bytes
internal import Vocabulary

/// Decides whether bytes are a node: every offset, length and order that walks rely on.
struct NodeCheck {
    struct Header {
        let kind: EntryKind
        let level: Int
        let entries: Int
        let version: UInt32
    }

    let id: IndexNodeID
    let body: ByteView
    let format: NodeFormat
    private(set) var rows: UInt64 = 0
    private(set) var entriesEnd = 0
    private(set) var restarts = 0

    /// Checks everything.
    ///
    /// - Throws: `IndexError.damaged`.
    mutating func run() throws(IndexError) -> Header {
        let least = NodeFormat.headerBytes + NodeFormat.trailerBytes
        guard body.count > least, body.count <= NodeFormat.bodyBytesLimit else {
            throw damaged("length")
        }
        let checksum = body.littleEndian(at: body.count - 4, as: UInt32.self)
        guard CRC32C.checksum(body.slice(0, body.count - 4)) == checksum else {
            throw damaged("checksum")
        }
        let entries = Int(body.littleEndian(at: 2, as: UInt16.self))
        guard let kind = EntryKind(rawValue: body[0]), (kind == .child) == (body[1] > 0),
            body[1] < NodeFormat.heightMax, entries > 0
        else { throw damaged("header") }
        restarts = Int(
            body.littleEndian(at: body.count - NodeFormat.trailerBytes, as: UInt16.self)
        )
        entriesEnd = body.count - NodeFormat.trailerBytes - 2 * restarts
        guard restarts > 0, restarts <= entries, entriesEnd > NodeFormat.headerBytes else {
            throw damaged("restarts")
        }
        try checkEntries(kind, entries)
        return Header(
            kind: kind,
            level: Int(body[1]),
            entries: entries,
            version: body.littleEndian(at: 4, as: UInt32.self)
        )
    }

    private func damaged(_ why: String) -> IndexError { .damaged(id, why) }

    private mutating func checkEntries(_ kind: EntryKind, _ entries: Int) throws(IndexError) {
        let base = body.start
        let key = KeyBuffer()
        var offset = NodeFormat.headerBytes
        var restart = 0
        var nextRestart = offset
        if restartOffset(0) != offset { throw damaged("first restart") }
        for index in 0..<entries {
            guard offset < entriesEnd else { throw damaged("entries") }
            let shared = Int(base.load(fromByteOffset: offset, as: UInt8.self))
            let isRestart = offset == nextRestart
            if isRestart {
                guard shared == 0 else { throw damaged("restart in the middle of a key") }
                restart += 1
                nextRestart = restart < restarts ? restartOffset(restart) : 0
            }
            offset += 1
            guard shared <= key.count,
                let length = Varint.read(base, &offset, before: entriesEnd),
                length <= entriesEnd - offset, shared + length <= NodeFormat.keyBytesMax
            else { throw damaged("key") }
            let suffix = ByteView(start: base + offset, count: length)
            let tail = ByteView(start: key.start + shared, count: key.count - shared)
            guard index == 0 || tail.precedesQuickly(suffix) else { throw damaged("order") }
            guard index > 0 || kind != .child || length == 0 else { throw damaged("first key") }
            key.replace(after: shared, with: suffix.start, length)
            offset += length
            try kind == .child ? checkChild(&offset) : checkValue(&offset, kind)
        }
        guard offset == entriesEnd, restart == restarts else { throw damaged("entries") }
        if kind != .child { rows = UInt64(entries) }
    }

    private func restartOffset(_ index: Int) -> Int {
        Int(body.littleEndian(at: entriesEnd + 2 * index, as: UInt16.self))
    }

    @inline(__always)
    private func checkValue(_ offset: inout Int, _ kind: EntryKind) throws(IndexError) {
        let base = body.start
        if kind == .row {
            let vBucket = Varint.read(base, &offset, before: entriesEnd)
            guard let vBucket, vBucket <= Int(UInt16.max) else { throw damaged("vBucket") }
        }
        guard let coded = Varint.read(base, &offset, before: entriesEnd) else {
            throw damaged("value")
        }
        let length = coded >> 1
        if coded & 1 == 0 {
            guard length <= entriesEnd - offset else { throw damaged("value") }
            offset += length
        } else {
            guard Varint.read(base, &offset, before: entriesEnd) != nil else {
                throw damaged("big value")
            }
        }
    }

    private mutating func checkChild(_ offset: inout Int) throws(IndexError) {
        let base = body.start
        guard let child = Varint.read(base, &offset, before: entriesEnd), child > 0,
            IndexNodeID(UInt64(child)) != id,
            let version = Varint.read(base, &offset, before: entriesEnd),
            version <= Int(UInt32.max),
            let below = Varint.read(base, &offset, before: entriesEnd), below > 0
        else { throw damaged("child") }
        let (sum, isOver) = rows.addingReportingOverflow(UInt64(below))
        guard !isOver, sum <= UInt64(Int.max) else { throw damaged("row count") }
        rows = sum
    }
}

extension ByteView {
    /// `precedes`, for views that differ in their first byte most of the time.
    @inline(__always)
    func precedesQuickly(_ other: ByteView) -> Bool {
        if count > 0, other.count > 0 {
            let one = start.load(as: UInt8.self)
            let two = other.start.load(as: UInt8.self)
            if one != two { return one < two }
        }
        return precedes(other)
    }
}
