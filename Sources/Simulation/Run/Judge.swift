internal import Bytes
internal import DivanClient
internal import SimulatedPlatform
internal import Vocabulary

/// What clients were told, and whether that could be.
///
/// - NoPhantom: a read returns a value that somebody sent for that key, and none that was refused.
/// - OneWriter: of each vBucket there was one writer at a time (`OneWriter`).
/// - Acknowledged, in a seed in which nothing dies and nobody is cut off: a read returns the last
///   acknowledged write, or one whose outcome nobody knows.
/// - Flush: once a bucket was emptied, nobody reads what was acknowledged before.
/// - MapOrder: a client's map only becomes newer; equal revisions are equal maps.
final class Judge: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    struct Document: Hashable {
        let bucket: String
        let key: String
        /// Holds a number that clients add to.
        var isCounter = false
        /// At which level it is written, always; nil where nobody waits for other copies.
        var durability: DurabilityLevel?
    }

    private struct MapName: Hashable {
        let bucket: String
        let epoch: Int64
        let number: Int64
    }

    private struct History {
        /// Nil is "not there".
        var acknowledged: [UInt8]?
        var unknown: [[UInt8]?] = []
        var sent: Set<[UInt8]> = []
        /// When the answers came, in a bucket that may be emptied.
        var answered: [[UInt8]: UInt64] = [:]
        /// What was in the bucket when it was emptied, and when that was done.
        var emptied: [[UInt8]: UInt64] = [:]
    }

    private(set) var violations: [String] = []
    private(set) var tally = Tally()
    /// The cluster has two pasts: what comes of it says nothing any more, and may never end.
    private(set) var isHopeless = false
    /// Nothing died and nobody was cut off: acknowledged writes stay.
    let isLossless: Bool
    /// Clocks stand still in this seed, so that two nodes may take a vBucket for their own.
    let isBeyondAssumptions: Bool
    private let world: SimulatedWorld
    private var documents: [Document: History] = [:]
    private var maps: [MapName: ClusterMap] = [:]

    private var ledger = Ledger()
    private var oneWriter = OneWriter()

    init(_ world: SimulatedWorld, isLossless: Bool, isBeyondAssumptions: Bool) {
        self.world = world
        self.isLossless = isLossless
        self.isBeyondAssumptions = isBeyondAssumptions
    }

    func accuse(_ sentence: String) {
        world.transcript.note("VIOLATION \(sentence)")
        if violations.count < 20 { violations.append(sentence) }
    }

    /// Its members have decided on two things in one place.
    func giveUp(_ sentence: String) {
        accuse(sentence)
        isHopeless = true
    }

    // MARK: Writes

    func sends(_ value: [UInt8], to document: Document) {
        documents[document, default: History()].sent.insert(value)
    }

    /// `value` is nil for a removal.
    func acknowledged(
        _ document: Document,
        _ value: [UInt8]?,
        _ token: MutationToken?,
        sentAt: UInt64
    ) {
        documents[document, default: History()].acknowledged = value
        if let value, document.bucket == SimulationRun.extraName {
            documents[document]?.answered[value] = world.now
        }
        guard let token else { return accuse("\(document.key) was acknowledged without a token") }
        ledger.acknowledged(document, value, token)
        guard !isBeyondAssumptions else { return }
        let flaws = oneWriter.acknowledged(
            LateAnswers.Token(uuid: token.uuid, seqno: token.seqno),
            in: OneWriter.Place(bucket: document.bucket, vBucket: token.vBucket),
            isDurable: document.durability != nil,
            sentAt: sentAt,
            now: world.now
        )
        for flaw in flaws { accuse("OneWriter: \(flaw)") }
    }

    /// A node says this that was stopped while it was made (`OneWriter`).
    func saysLate(_ bytes: ByteView) { oneWriter.saidLate(bytes) }

    func mayHaveWritten(_ document: Document, _ value: [UInt8]?) {
        documents[document, default: History()].unknown.append(value)
    }

    func refused(_ document: Document, _ value: [UInt8]) {
        documents[document, default: History()].sent.remove(value)
    }

    /// A bucket was emptied, between `began` and now.
    func flushed(_ bucket: String, began: UInt64) {
        world.transcript.note("\(bucket) is empty")
        for document in documents.keys where document.bucket == bucket {
            guard var history = documents[document] else { continue }
            for (value, time) in history.answered where time < began {
                history.emptied[value] = world.now
            }
            history.answered = history.answered.filter { $0.value >= began }
            documents[document] = history
        }
    }

    // MARK: Reads

    /// `isOwner`: whoever reads is the only one who writes the key, and waits for nothing.
    func read(_ document: Document, _ value: [UInt8]?, isOwner: Bool, askedAt: UInt64) {
        let history = documents[document] ?? History()
        if let value, !history.sent.contains(value), !document.isCounter {
            accuse(
                "NoPhantom: \(document.key) read \(RegisterOperation.text(value)), which "
                    + "nobody wrote"
            )
        }
        if let value, let emptied = history.emptied[value], askedAt > emptied {
            accuse("Flush: \(document.key) read \(RegisterOperation.text(value)) of before")
        }
        guard isLossless, isOwner, document.bucket != SimulationRun.extraName else { return }
        if history.acknowledged != value, !history.unknown.contains(value) {
            accuse(
                "Acknowledged: \(document.key) read \(RegisterOperation.text(value)), not "
                    + RegisterOperation.text(history.acknowledged)
            )
        }
    }

    /// For who looks at all operations on a document together, in the end.
    func did(_ document: Document, _ operation: RegisterOperation) {
        ledger.did(document, operation)
    }

    // MARK: The end

    /// Whether all operations on each document can be explained, of those that are `promised` so.
    func linearize(_ promised: (DurabilityLevel) -> Bool) {
        let result = ledger.linearize(
            isBeyondAssumptions: isBeyondAssumptions,
            isLossless: isLossless
        ) { document in
            document.bucket != SimulationRun.extraName
                && (isLossless || document.durability.map(promised) ?? false)
        }
        tally.add(result.tally)
        result.flaws.forEach(accuse)
    }

    /// Whether acknowledged writes are in the end what they should be; `copies` has the active one.
    func find(in copies: (String, VBucketID) -> (CopyContent, AcknowledgedWrites.Losses)?) {
        let result = ledger.find(in: copies)
        tally.add(result.tally)
        result.flaws.forEach(accuse)
    }

    // MARK: Maps

    func sees(_ map: ClusterMap, after before: ClusterMap?) {
        if let before, map.revision < before.revision {
            accuse("MapOrder: a client went from \(before.revision) to \(map.revision)")
        }
        let name = MapName(
            bucket: map.bucket,
            epoch: map.revision.epoch,
            number: map.revision.number
        )
        if let known = maps[name], known != map {
            accuse("MapOrder: two maps of \(map.bucket) have the revision \(map.revision)")
        }
        maps[name] = map
    }
}
