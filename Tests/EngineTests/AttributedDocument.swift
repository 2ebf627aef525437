import Bytes
import Engine
import Testing
import Vocabulary

/// One key of a vBucket, and the disk behind it: its states with and without extended attributes.
final class AttributedDocument {
    enum State: CaseIterable {
        case missing, plain, user, system, tombstoneWithSystem, tombstone
    }

    /// Where the value is before an operation.
    enum Residency: CaseIterable { case resident, ejected, stub }

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var level: DurabilityLevel?
    /// How often an operation waited for a value.
    var valueFetches = 0
    private var disk: [UInt64: (meta: DocumentMeta, value: [UInt8])] = [:]

    init(
        _ state: State = .missing,
        _ residency: Residency = .resident,
        body: String = "5",
        expiry: UInt32 = 0
    ) throws {
        bucket = stage.bucket(policy: residency == .stub ? .fullEviction : .valueOnly)
        vBucket = try #require(bucket[1])
        // Long enough for the ejection of the value to free memory.
        let long = String(repeating: "1", count: 200)
        switch state {
        case .missing: break
        case .plain, .tombstone: store(body, expiry: expiry)
        case .user: store(xattrs(["user": "\(long)"], body: body), expiry: expiry)
        case .system, .tombstoneWithSystem:
            store(xattrs(["user": "\(long)", "_sys": "\(long)"], body: body), expiry: expiry)
        }
        if [.tombstone, .tombstoneWithSystem].contains(state) {
            _ = run { $0.delete($1, hash: $2, cas: .none, $3) }
        }
        if residency != .resident, state != .missing { leaveMemory(residency) }
        valueFetches = 0
    }

    private func store(_ body: String, expiry: UInt32) {
        let outcome = store(Array(body.utf8), attributes: .keep, expiry: expiry)
        #expect(outcome.hasPrefix("document"))
    }

    private func store(_ value: [UInt8], expiry: UInt32) {
        let outcome = store(value, datatype: .xattr, attributes: .replace, expiry: expiry)
        #expect(outcome.hasPrefix("document"))
    }

    // MARK: Operations

    func with<Result>(_ body: (inout VBucketCore, ByteView, UInt64) -> Result) -> Result {
        let hash = stage.hash(of: key(1))
        return viewing(key(1)) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    /// Repeats an operation until it waits for nothing, commits it if it was prepared, and
    /// describes its outcome.
    func run(
        _ body: (inout VBucketCore, ByteView, UInt64, ExecutionContext) -> WriteResult
    ) -> String {
        stage.nanoseconds += 100_000
        var turn = stage.turn
        turn.durability = level
        for _ in 0..<4 {
            let outcome = with { body(&$0, $1, $2, turn) }
            switch outcome {
            case .done: return description
            case .prepared(let stored):
                let outcome = vBucket.withCore { $0.commit(stored.seqno, fence: 0, stage.turn) }
                guard case .done = outcome else { return "\(outcome)" }
                return description
            case .wait(.room(let bytes)): return "noRoom(\(bytes))"
            case .wait(let wait): fetch(wait)
            case .refused(let refusal): return "\(refusal)"
            }
        }
        return "waits"
    }

    /// The same for a read.
    func read(
        _ body: (inout VBucketCore, ByteView, UInt64, ExecutionContext) -> ReadResult
    ) -> String {
        for _ in 0..<4 {
            let outcome = with { body(&$0, $1, $2, stage.turn) }
            switch outcome {
            case .done: return description
            case .wait(let wait): fetch(wait)
            case .refused(let refusal): return "\(refusal)"
            case .prepared: return "\(outcome)"
            }
        }
        return "waits"
    }

    func store(
        _ value: [UInt8],
        datatype: Datatype = [],
        mode: StoreRequest.Mode = .set,
        cas: CAS = .none,
        attributes: AttributePolicy = .keep,
        isDeleted: Bool = false,
        expiry: UInt32 = 0
    ) -> String {
        viewing(value) { value in
            run { core, key, hash, turn in
                var request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: 0,
                    expiry: expiry,
                    datatype: datatype,
                    cas: cas,
                    mode: mode,
                    preservesExpiry: false
                )
                request.attributes = attributes
                request.isDeleted = isDeleted
                return core.store(request, turn)
            }
        }
    }

    /// The version in the table: its kind, the names of its attributes, its body.
    var description: String {
        with { core, key, hash in
            guard let item = core.table.find(key, hash: hash)?.item else { return "none" }
            let names = item.attributes.map { $0.map(\.key.text) } ?? []
            let kind = item.isDeleted ? "tombstone" : "document"
            return "\(kind)[\(names.joined(separator: ","))]\(item.body.text)"
        }
    }

    var meta: DocumentMeta? {
        with { core, key, hash in core.table.find(key, hash: hash)?.item.meta }
    }

    /// Whether counts and account are exact.
    var isConsistent: Bool {
        let count = vBucket.withCore { core in
            (core.liveCount + core.tombstoneCount, core.table.count, core.recount())
        }
        return count.0 == count.1 && bucket.account.bytes == UInt64(count.2)
    }

    // MARK: The disk

    private func leaveMemory(_ residency: Residency) {
        vBucket.withCore { core in
            let drain = core.drain()
            for entry in drain.entries {
                disk[entry.item.seqno.value] = (entry.item.meta, entry.item.value.bytes)
            }
            core.persisted(through: drain.boundary)
        }
        let turn = stage.turn
        if residency == .ejected {
            _ = with { $0.eject($1, hash: $2, turn) }
            return
        }
        var next: UInt64? = 0
        while let place = next {
            next = vBucket.withCore {
                $0.ejectSlice(from: place, groupsMax: 50, threshold: .max, turn).next
            }
        }
    }

    private func fetch(_ wait: Wait) {
        let turn = stage.turn
        switch wait {
        case .value(let seqno):
            valueFetches += 1
            guard let version = disk[seqno.value] else { break }
            let isHere = viewing(version.value) { value in
                with { $0.install(value, of: seqno, key: $1, hash: $2, turn) }
            }
            return #expect(isHere)
        case .metadata(let seqno):
            guard let version = disk[seqno.value] else { break }
            let count = version.value.count
            let isHere = with { core, key, _ in
                core.restore(version.meta, key: key, valueCount: count, value: nil, turn)
            }
            return #expect(isHere)
        default: break
        }
        Issue.record("\(wait) cannot be provided")
    }
}
