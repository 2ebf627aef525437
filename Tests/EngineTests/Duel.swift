import Bytes
import Engine
import Testing
import Vocabulary

/// Gives the same commands to a vBucket and to its model.
final class Duel {
    typealias Answer = ModelVBucket.Answer

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var model: ModelVBucket
    var random: SeededRandom
    var lastCAS: UInt64 = 0
    var persisted: UInt64 = 0
    var drain: VBucketCore.Drain?
    /// How often a command had to wait for a value.
    var fetches = 0

    /// What commits brought to disk, by seqno.
    var disk: [UInt64: (key: [UInt8], meta: DocumentMeta, value: [UInt8])] = [:]
    /// How often all of a document had to be fetched, and a tombstone.
    var wholeFetches = 0
    var tombstoneFetches = 0

    var drained: [(UInt64, (key: [UInt8], meta: DocumentMeta, value: [UInt8]))] = []

    init(_ type: BucketType, policy: EvictionPolicy? = nil, seed: UInt64) throws {
        bucket = stage.bucket(type, policy: policy)
        vBucket = try #require(bucket[0])
        model = ModelVBucket(now: stage.seconds)
        random = SeededRandom(seed: seed)
    }

    /// Runs `body` under the lock with the key's view and hash.
    func with<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        stage.nanoseconds = (stage.nanoseconds + 777) % 1_000_000_000
        return viewing(bytes) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    /// After the first difference everything differs: that one is worth reading.
    var hasFailed = false

    func check(_ isTrue: Bool, _ what: @autoclosure () -> String) {
        guard !isTrue, !hasFailed else { return }
        hasFailed = true
        Issue.record("\(what())")
    }

    /// Runs `body`, and again each time it turned out that something has to be fetched whole.
    func settle<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        while true {
            let result = with(number, body)
            guard let seqno = wanted(result) else { return result }
            fetchWhole(seqno)
            if hasFailed { return result }
        }
    }

    func wanted(_ result: Any) -> UInt64? {
        switch result {
        case let outcome as WriteResult:
            if case .wait(.metadata(let seqno)) = outcome { return seqno.value }
        case let (answer, _) as (Answer, CAS):
            if case .wouldFetch(let seqno) = answer { return seqno }
        case let meta as Meta: return meta.wanted
        default: break
        }
        return nil
    }

    func fetchWhole(_ seqno: UInt64) {
        guard let version = disk[seqno] else {
            return check(false, "seqno \(seqno) is asked for and not on disk")
        }
        wholeFetches += 1
        if version.meta.isDeleted { tombstoneFetches += 1 }
        let withValue = Bool.random(using: &random)
        let isHere = viewing(version.key) { key in
            viewing(version.value) { value in
                vBucket.withCore {
                    $0.restore(
                        version.meta,
                        key: key,
                        valueCount: version.value.count,
                        value: withValue ? value : nil,
                        stage.turn
                    )
                }
            }
        }
        check(isHere, "what was asked for can be restored")
        guard let number = Int(String(decoding: version.key.dropFirst(4), as: UTF8.self)) else {
            return
        }
        check(model.documents[number]?.seqno == seqno, "the newest version is asked for")
        model.documents[number]?.isStub = false
        let isEjected = !withValue && !version.value.isEmpty && !version.meta.isDeleted
        model.documents[number]?.isEjected = isEjected
    }

    // MARK: Translating answers

    /// Checks a new CAS and hands it to the model, which cannot know it.
    func take(_ cas: CAS, for number: Int) {
        check(cas.value > lastCAS, "CASes grow strictly")
        lastCAS = cas.value
        model.documents[number]?.cas = cas.value
    }

    /// Compares, and where the answer made a version, takes its CAS over.
    func expect(_ number: Int, _ outcome: WriteResult, _ expected: Answer, _ what: String) {
        let answer: Answer
        switch outcome {
        case .done(let stored):
            if expected == .unlocked {
                answer = .unlocked
            } else {
                answer = .stored(seqno: stored.seqno.value, number: stored.number)
                take(stored.cas, for: number)
            }
        case .refused(.notFound): answer = .notFound
        case .refused(.exists): answer = .exists
        case .refused(.locked): answer = .locked
        case .refused(.notLocked): answer = .notLocked
        case .refused(.notStored): answer = .notStored
        case .refused(.notANumber): answer = .notANumber
        case .wait(.value(let seqno)): answer = .wouldBlock(seqno.value)
        default:
            Issue.record("\(what) came to \(outcome)")
            return
        }
        check(answer == expected, "\(what) on \(number): \(answer), not \(expected)")
    }

    func answer(_ outcome: ReadResult) -> (Answer, CAS)? {
        switch outcome {
        case .done(let (item, cas)):
            let isLocked = cas == .locked
            return (
                .found(value: item.value.bytes, flags: item.flags, isLocked: isLocked), cas
            )
        case .refused(.notFound): return (.notFound, .none)
        case .refused(.locked): return (.locked, .none)
        case .wait(.value(let seqno)): return (.wouldBlock(seqno.value), .none)
        case .wait(.metadata(let seqno)): return (.wouldFetch(seqno.value), .none)
        default:
            Issue.record("a read came to \(outcome)")
            return nil
        }
    }
}
