internal import Bytes
internal import Engine
internal import JSON
internal import Seams
package import Vocabulary
internal import Wire

/// A whole document, copied out of memory.
package struct DocumentCopy: Sendable {
    package let key: [UInt8]
    package let meta: DocumentMeta
    package let value: [UInt8]
}

/// What a question about one document, asked from outside the data port, came to.
package enum DocumentAnswer: Sendable {
    case found(DocumentCopy)
    case written(CAS)
    case notFound
    case noBucket
    case locked
    case tooLarge
    case temporaryFailure
    /// Another node has it, or may have.
    case notHere
    case failed(String)
}

/// What the admin interface does to one document.
package enum DocumentAction: Sendable {
    case read
    /// Expiry as the protocol has it.
    case write(value: [UInt8], flags: UInt32, expiry: UInt32, preservesExpiry: Bool)
    case delete

    var isWrite: Bool {
        if case .read = self { false } else { true }
    }
}

/// The admin interface's way to documents: the same engine, on a lane of its own.
extension DocumentService {
    /// Does something to one document and calls `done` from some lane.
    package func perform(
        _ action: DocumentAction,
        key: [UInt8],
        inBucket name: String,
        _ done: @escaping @Sendable (DocumentAnswer) -> Void
    ) {
        lanes.nonIO.lane.post { [self] in
            guard let bucket = bucket(named: name) else { return done(.noBucket) }
            guard !key.isEmpty, key.count <= Limits.keyBytesMax else { return done(.notFound) }
            attempt(action, key, bucket, done)
        }
    }

    private func attempt(
        _ action: DocumentAction,
        _ key: [UInt8],
        _ bucket: OpenBucket,
        waitsForRoom: Bool = true,
        _ done: @escaping @Sendable (DocumentAnswer) -> Void
    ) {
        guard lease.holds(environment.time) else { return done(.notHere) }
        let result = key.withUnsafeBytes { buffer in execute(action, ByteView(buffer), bucket) }
        let number = VBucketID(ofKey: key, count: bucket.engine.count)
        switch result {
        case .answer(let answer):
            if lease.holds(environment.time) { return done(answer) }
            // As on the data port: what the lease did not outlive is nobody's to see; and what was
            // written may last, so it must not be tried elsewhere as if it had not been.
            if case .written = answer { return done(.temporaryFailure) }
            done(.notHere)
        case .prepared(let seqno):
            bucket.desk.wait(for: seqno, of: number) { end in
                guard case .committed(let cas, _, _, _) = end else {
                    return done(.failed("It is not known whether the write holds."))
                }
                done(.written(cas))
            }
        case .wait(let wait):
            park(wait, number, key, bucket) { [self] completion in
                if case .failed(_, let reason) = completion { return done(.failed(reason)) }
                lanes.nonIO.lane.post { [self] in
                    attempt(action, key, bucket, waitsForRoom: waitsForRoom, done)
                }
            }
        case .noRoom(let bytes):
            guard waitsForRoom, bucket.pager.needsRoom(bytes) else {
                bucket.pager.wake()
                return done(.temporaryFailure)
            }
            bucket.pager.makeRoom(for: bytes) { [self] completion in
                switch completion {
                case .failed(.tooBig, let reason): done(.failed(reason))
                case .failed: done(.temporaryFailure)
                default:
                    lanes.nonIO.lane.post { [self] in
                        attempt(action, key, bucket, waitsForRoom: false, done)
                    }
                }
            }
        }
    }

    /// What an attempt came to.
    private enum Attempt {
        case answer(DocumentAnswer)
        case wait(Wait)
        /// Memory is short of so many bytes.
        case noRoom(Int)
        /// The bucket has every write be durable: the others have to have it first.
        case prepared(Seqno)
    }

    private func park(
        _ wait: Wait,
        _ number: VBucketID,
        _ key: [UInt8],
        _ bucket: OpenBucket,
        _ resume: @escaping @Sendable (Completion) -> Void
    ) {
        if case .handOver = wait { return whenSettled(number, of: bucket, resume) }
        guard let disk = bucket.disk else {
            preconditionFailure("only a bucket with a disk has something to wait for")
        }
        func fetch(_ seqno: Seqno, isWhole: Bool) {
            let request = FetchRequest(
                vBucket: number,
                seqno: seqno,
                key: key,
                hash: key.withUnsafeBytes { hash(ByteView($0)) },
                isWhole: isWhole
            )
            disk.fetcher.fetch(request, resume)
        }
        switch wait {
        case .value(let seqno): fetch(seqno, isWhole: false)
        case .metadata(let seqno): fetch(seqno, isWhole: true)
        case .warmup: disk.warmup.whenLoaded(number, resume)
        case .handOver: preconditionFailure("that was waited for above")
        }
    }

    /// One attempt, on the nonIO lane: an answer, or what to wait for.
    private func execute(
        _ action: DocumentAction,
        _ key: ByteView,
        _ bucket: OpenBucket
    ) -> Attempt {
        let number = VBucketID(ofKey: key, count: bucket.engine.count).number
        guard let vBucket = bucket.engine[number] else { return .answer(.temporaryFailure) }
        let context = lanes.nonIO.context
        var turn = context.turn(environment.time.wallNanoseconds())
        if action.isWrite, let level = bucket.minimumDurability {
            if bucket.obstacle(to: level, of: VBucketID(number)) != nil {
                return .answer(.failed("Too few nodes have a copy for a durable write."))
            }
            turn.durability = level
        }
        let hash = hash(key)
        switch action {
        case .read:
            return vBucket.withCore { core in
                defer { if core.takeOwedWake() { bucket.disk?.noteDirty(VBucketID(number)) } }
                switch core.get(key, hash: hash, turn) {
                case .found(let item, let cas):
                    var meta = item.meta
                    meta.cas = cas
                    let value = item.value.bytes
                    return .answer(.found(DocumentCopy(key: key.bytes, meta: meta, value: value)))
                case .notFound: return .answer(.notFound)
                case .locked: return .answer(.locked)
                case .wouldBlock(let wait): return .wait(wait)
                case .notMyVBucket: return .answer(.notHere)
                case .temporaryFailure, .inProgress, .recommitting:
                    return .answer(.temporaryFailure)
                }
            }
        case .write(let value, let flags, let expiry, let preservesExpiry):
            guard value.count <= Limits.valueBytesMax else { return .answer(.tooLarge) }
            return value.withUnsafeBytes { buffer in
                let view = ByteView(buffer)
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: view,
                    flags: flags,
                    expiry: Expiry.absolute(expiry, maxTTL: bucket.maxTTL, turn),
                    datatype: context.validator.isDocument(view) ? .json : [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: preservesExpiry
                )
                let outcome = write(vBucket, bucket, turn) { $0.store(request, turn) }
                return finish(outcome, number, bucket)
            }
        case .delete:
            let outcome = write(vBucket, bucket, turn) {
                $0.delete(key, hash: hash, cas: .none, turn)
            }
            return finish(outcome, number, bucket)
        }
    }

    private func write(
        _ vBucket: VBucket,
        _ bucket: OpenBucket,
        _ turn: Turn,
        _ body: (inout VBucketCore) -> MutationOutcome
    ) -> MutationOutcome {
        guard let level = turn.durability else { return vBucket.withCore { body(&$0) } }
        return bucket.prepare(vBucket, level, nil, environment.time, body)
    }

    private func finish(
        _ outcome: MutationOutcome,
        _ number: UInt16,
        _ bucket: OpenBucket
    ) -> Attempt {
        switch outcome {
        case .stored(let stored):
            if stored.wakesFlusher { bucket.disk?.noteDirty(VBucketID(number)) }
            if stored.wakesStreams { bucket.traffic.tell(.changed, of: VBucketID(number)) }
            return .answer(.written(stored.cas))
        case .prepared(let stored):
            if stored.wakesFlusher { bucket.disk?.noteDirty(VBucketID(number)) }
            if stored.wakesStreams { bucket.traffic.tell(.changed, of: VBucketID(number)) }
            return .prepared(stored.seqno)
        case .notFound: return .answer(.notFound)
        case .locked: return .answer(.locked)
        case .tooLarge: return .answer(.tooLarge)
        case .noRoom(let bytes): return .noRoom(bytes)
        case .notMyVBucket: return .answer(.notHere)
        case .wouldBlock(let wait): return .wait(wait)
        default: return .answer(.temporaryFailure)
        }
    }
}
