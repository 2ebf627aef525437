import Bytes
import Engine
import Testing
import Vocabulary

/// Durable writes on one vBucket, command by command.
struct PrepareTests {
    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket

    init() throws {
        bucket = stage.bucket()
        vBucket = try #require(bucket[3])
    }

    /// Runs `body` under the lock with the key's view and hash.
    private func with<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        stage.nanoseconds += 1_000_000
        return viewing(bytes) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    private func turn(_ level: DurabilityLevel? = nil) -> ExecutionContext {
        var turn = stage.turn
        turn.durability = level
        return turn
    }

    private func set(
        _ number: Int,
        _ value: String,
        _ level: DurabilityLevel? = .majority,
        cas: CAS = .none,
        expiry: UInt32 = 0
    ) -> WriteResult {
        viewing(Array(value.utf8)) { value in
            with(number) { core, key, hash in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: 5,
                    expiry: expiry,
                    datatype: [],
                    cas: cas,
                    mode: .set,
                    preservesExpiry: false
                )
                return core.store(request, turn(level))
            }
        }
    }

    private func prepared(_ outcome: WriteResult) throws -> Stored {
        guard case .prepared(let stored) = outcome else {
            Issue.record("a durable write came to \(outcome)")
            throw Unexpected()
        }
        return stored
    }

    private func value(_ number: Int) -> String? {
        with(number) { core, key, hash in
            guard case .done(let (item, _)) = core.get(key, hash: hash, turn()) else { return nil }
            return String(decoding: item.value.bytes, as: UTF8.self)
        }
    }

    private func commit(_ prepare: Seqno, fence: UInt64 = 0) -> WriteResult {
        vBucket.withCore { $0.commit(prepare, fence: fence, turn()) }
    }

    private func abort(_ prepare: Seqno, fence: UInt64 = 0) -> WriteResult {
        vBucket.withCore { $0.abort(prepare, fence: fence, turn()) }
    }

    private func outstanding() -> [UInt64] {
        vBucket.withCore { $0.outstandingPrepares.map(\.seqno.value) }
    }

    @Test("a prepare is invisible; its commit is visible with the prepare's CAS")
    func prepareIsInvisibleUntilCommit() throws {
        _ = set(1, "before", nil)
        let prepare = try prepared(set(1, "after", .persistToMajority))
        #expect(prepare.seqno.value == 2)
        #expect(value(1) == "before")
        #expect(
            vBucket.withCore { $0.outstandingPrepares } == [
                OutstandingPrepare(
                    seqno: Seqno(2),
                    level: .persistToMajority,
                    isInherited: false
                )
            ]
        )
        guard case .done(let stored) = commit(prepare.seqno) else {
            Issue.record("an outstanding prepare can be committed")
            return
        }
        #expect(stored.seqno.value == 3 && stored.cas == prepare.cas)
        #expect(value(1) == "after" && outstanding().isEmpty)
        with(1) { core, key, hash in
            guard case .done(let (item, cas)) = core.getMeta(key, hash: hash, turn()) else {
                Issue.record("what was committed is there")
                return
            }
            #expect(cas == prepare.cas && item.revision == 2 && item.flags == 5)
            #expect(item.level == nil && item.abortedPrepare == nil)
            #expect(core.liveCount == 1 && core.tombstoneCount == 0)
        }
        guard case .refused(.notFound) = commit(prepare.seqno) else {
            Issue.record("nothing is committed twice")
            return
        }
    }

    @Test("an aborted prepare leaves nothing but its entry in the change order")
    func abortedPrepareLeavesOnlyItsSeqno() throws {
        let prepare = try prepared(set(1, "never"))
        guard case .done(let stored) = abort(prepare.seqno) else {
            Issue.record("an outstanding prepare can be aborted")
            return
        }
        #expect(stored.seqno.value == 2)
        #expect(value(1) == nil && outstanding().isEmpty)
        #expect(vBucket.withCore { $0.liveCount + $0.tombstoneCount } == 0)
        let drain = vBucket.withCore { $0.drain() }
        #expect(drain.entries.isEmpty && drain.completedPrepares.isEmpty)
        #expect(drain.boundary.value == 2)
        vBucket.withCore { $0.persisted(through: drain.boundary) }
        #expect(vBucket.withCore { UInt64($0.recount()) } == bucket.account.bytes)
    }

    @Test("a key with a prepare cannot be changed or locked, but can be read")
    func keyWithPrepareCanBeReadButNotChangedOrLocked() throws {
        _ = set(1, "7", nil)
        let prepare = try prepared(set(1, "8"))
        for level in [nil, DurabilityLevel.majority] {
            guard case .refused(.writeInProgress) = set(1, "9", level) else {
                Issue.record("one write of a key at a time")
                return
            }
        }
        with(1) { core, key, hash in
            guard
                case .refused(.writeInProgress) = core.delete(key, hash: hash, cas: .none, turn()),
                case .refused(.writeInProgress) = core.getAndLock(
                    key,
                    hash: hash,
                    seconds: 5,
                    turn()
                ),
                case .refused(.writeInProgress) = core.touch(key, hash: hash, expiry: 9, turn()),
                case .refused(.writeInProgress) = core.unlock(key, hash: hash, cas: CAS(1), turn())
            else {
                Issue.record("a key with a prepare is left alone")
                return
            }
            let counter = ArithmeticRequest(
                key: key,
                hash: hash,
                isIncrement: true,
                delta: 1,
                initial: nil,
                expiry: 0,
                cas: .none
            )
            guard case .refused(.writeInProgress) = core.arithmetic(counter, turn()) else {
                Issue.record("a key with a prepare is left alone")
                return
            }
        }
        #expect(value(1) == "7")
        guard case .done = set(2, "other keys are free", nil) else {
            Issue.record("other keys are free")
            return
        }
        _ = abort(prepare.seqno)
        guard case .done = set(1, "9", nil) else {
            Issue.record("after the abort the key is free again")
            return
        }
    }

    @Test("deletions, additions and counters can be prepared")
    func deletionsAdditionsAndCountersCanBePrepared() throws {
        _ = set(1, "5", nil)
        let counted = with(1) { core, key, hash in
            let request = ArithmeticRequest(
                key: key,
                hash: hash,
                isIncrement: true,
                delta: 3,
                initial: nil,
                expiry: 0,
                cas: .none
            )
            return core.arithmetic(request, turn(.majority))
        }
        let counter = try prepared(counted)
        #expect(counter.number == 8 && value(1) == "5")
        _ = commit(counter.seqno)
        #expect(value(1) == "8")
        let extended = with(1) { core, key, hash in
            viewing(Array("0".utf8)) { more in
                core.extend(
                    key,
                    hash: hash,
                    with: more,
                    atFront: false,
                    cas: .none,
                    isJSON: { _ in true },
                    turn(.majority)
                )
            }
        }
        _ = commit(try prepared(extended).seqno)
        #expect(value(1) == "80")
        let deleted = with(1) { $0.delete($1, hash: $2, cas: .none, turn(.majority)) }
        #expect(value(1) == "80")
        _ = commit(try prepared(deleted).seqno)
        #expect(value(1) == nil)
        #expect(vBucket.withCore { $0.tombstoneCount } == 1)
        guard
            case .refused(.notFound) = with(
                1,
                { $0.delete($1, hash: $2, cas: .none, turn(.majority)) }
            )
        else {
            Issue.record("what is not there is not deleted, durably or not")
            return
        }
    }

    @Test("only the unsealed active copy of the prepare's fence completes it")
    func onlyUnsealedActiveCopyOfPreparesFenceCompletesPrepare() throws {
        vBucket.withCore { core in
            var ownership = core.ownership
            ownership.fence = 7
            core.become(.active, ownership)
        }
        let prepare = try prepared(set(1, "a"))
        func isGone(_ outcome: WriteResult) -> Bool {
            if case .refused(.notFound) = outcome { return true }
            return false
        }
        #expect(isGone(commit(prepare.seqno, fence: 6)))
        #expect(isGone(abort(prepare.seqno, fence: 8)))
        vBucket.withCore { $0.beginHandOver() }
        guard case .wait(.handOver) = set(2, "b") else {
            Issue.record("a copy that hands over accepts no writes")
            return
        }
        guard case .done = commit(prepare.seqno, fence: 7) else {
            Issue.record("a copy that hands over completes its prepares")
            return
        }
        vBucket.withCore { $0.endHandOver(isDrained: false) }
        let other = try prepared(set(2, "b"))
        vBucket.withCore { $0.seal() }
        #expect(isGone(commit(other.seqno, fence: 7)))
        #expect(isGone(abort(other.seqno, fence: 7)))
    }

    @Test("a new active copy hides keys with inherited prepares until they are completed")
    func inheritedPrepareHidesKeyUntilItIsCompleted() throws {
        _ = set(1, "before", nil)
        let prepare = try prepared(set(1, "perhaps seen"))
        vBucket.withCore { core in
            core.become(.replica)
            core.promote(VBucketUUID(9))
        }
        #expect(vBucket.withCore { $0.outstandingPrepares.map(\.isInherited) } == [true])
        with(1) { core, key, hash in
            guard case .refused(.writeRecommitting) = core.get(key, hash: hash, turn()),
                case .refused(.writeRecommitting) = core.getMeta(key, hash: hash, turn()),
                case .refused(.writeRecommitting) = core.getAndLock(
                    key,
                    hash: hash,
                    seconds: 5,
                    turn()
                ),
                case .refused(.writeRecommitting) = core.touch(key, hash: hash, expiry: 9, turn()),
                case .refused(.writeRecommitting) = core.delete(key, hash: hash, cas: .none, turn())
            else {
                Issue.record("a key with an inherited prepare is neither readable nor writable")
                return
            }
        }
        _ = set(2, "free", nil)
        #expect(value(2) == "free")
        _ = commit(prepare.seqno)
        #expect(value(1) == "perhaps seen")
        guard case .prepared = set(1, "after") else {
            Issue.record("once it is committed the key is free")
            return
        }
    }

    @Test("a document with a prepare neither expires nor leaves memory whole")
    func documentWithPrepareNeitherExpiresNorIsFullyEjected() throws {
        let bucket = stage.bucket(policy: .fullEviction)
        let vBucket = try #require(bucket[0])
        let expiring = stage.store(vBucket, key(1), Array("due".utf8), expiry: stage.seconds + 1)
        #expect(expiring != nil)
        let prepare = viewing(Array("new".utf8)) { value in
            viewing(key(1)) { name in
                let request = StoreRequest(
                    key: name,
                    hash: stage.hash(of: key(1)),
                    value: value,
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { $0.store(request, turn(.majority)) }
            }
        }
        let seqno = try prepared(prepare).seqno
        stage.seconds += 10
        vBucket.withCore { core in
            let drain = core.drain()
            core.persisted(through: drain.boundary)
            let slice = core.expireSlice(from: 0, groupsMax: .max / 2, turn())
            #expect(slice.count == 0 && core.highSeqno == seqno)
            _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn())
            #expect(core.table.stubCount == 0)
            let (bytes, hash) = (key(1), stage.hash(of: key(1)))
            viewing(bytes) { key in
                guard case .refused(.notFound) = core.get(key, hash: hash, turn()) else {
                    Issue.record("an expired document is not found")
                    return
                }
            }
            #expect(core.highSeqno == seqno, "a read made no tombstone")
            guard case .done = core.commit(seqno, fence: 0, turn()) else {
                Issue.record("all that a commit needs is in memory")
                return
            }
        }
    }

    @Test("a reset or deleted vBucket frees all memory of its prepares")
    func resetOrDeletedVBucketFreesMemoryOfPrepares() throws {
        for number in 0..<20 { _ = try prepared(set(number, "value \(number)")) }
        _ = vBucket.withCore { $0.openChanges(after: .zero) }
        _ = vBucket.withCore { $0.drain() }
        _ = commit(Seqno(3))
        _ = abort(Seqno(4))
        #expect(vBucket.withCore { UInt64($0.recount()) } == bucket.account.bytes)
        vBucket.withCore { $0.reset(to: .replica, uuid: VBucketUUID(3)) }
        #expect(bucket.account.bytes == 0 && outstanding().isEmpty)
        #expect(bucket.account.checkpointBytes == 0)
    }

    @Test("the next commit includes a prepare that a failed commit may have written")
    func commitAfterFailedCommitIncludesItsPrepares() throws {
        let prepare = try prepared(set(1, "a"))
        let first = vBucket.withCore { $0.drain() }
        #expect(first.entries.map(\.item.level) == [.majority])
        _ = abort(prepare.seqno)
        vBucket.withCore { $0.undrain(first) }
        let second = vBucket.withCore { $0.drain() }
        #expect(second.entries.isEmpty && second.completedPrepares == [prepare.seqno])
        vBucket.withCore { $0.undrain(second) }
        let third = vBucket.withCore { $0.drain() }
        #expect(third.completedPrepares == [prepare.seqno])
        vBucket.withCore { $0.persisted(through: third.boundary) }
        #expect(vBucket.withCore { $0.drain().completedPrepares.isEmpty })
    }

    @Test("prepares loaded from disk are inherited")
    func preparesLoadedFromDiskAreInherited() throws {
        vBucket.withCore { core in
            var record = VBucketRecord(
                id: core.id,
                state: .active,
                failoverLog: FailoverLog(first: VBucketUUID(4))
            )
            record.highSeqno = Seqno(9)
            core.beginWarmup(record)
            for (seqno, number) in [(5, 1), (6, 2), (8, 2)] {
                viewing(key(number)) { name in
                    let meta = DocumentMeta(seqno: Seqno(UInt64(seqno)), cas: CAS(99))
                    core.loadPrepare(
                        meta,
                        level: .persistToMajority,
                        key: name,
                        hash: stage.hash(of: key(number)),
                        value: .empty,
                        turn()
                    )
                }
            }
            core.endWarmup()
            // Of one key only the newest can be outstanding.
            #expect(core.outstandingPrepares.map(\.seqno.value) == [5, 8])
            #expect(core.outstandingPrepares.map(\.isInherited) == [true, true])
            #expect(core.drain().completedPrepares == [Seqno(6)])
        }
        guard case .refused(.writeRecommitting) = set(1, "x") else {
            Issue.record("what may have been committed is finished first")
            return
        }
    }
}

struct Unexpected: Error {}
