internal import Bytes
internal import DivanClient
internal import SimulatedPlatform
internal import Vocabulary
internal import Wire

/// Checks the results that clients received, and collects the violations of a run.
///
/// - NoPhantom: a read returns a value that a client sent for that key and that was not refused.
/// - OneWriter: each vBucket has one active copy at a time (`OneWriter`).
/// - Acknowledged, in a seed without ended or disconnected nodes: a read returns the last
///   acknowledged write, or one of unknown outcome.
/// - Flush: after a bucket was flushed, no read returns a value that was acknowledged before.
/// - Attributes: all copies, disks and feeds show a version with the same attributes
///   (`AttributeLedger`).
/// - MapOrder: a client's map only becomes newer; maps with equal revisions are equal.
final class Verifier: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    struct Document: Hashable {
        let bucket: String
        let key: String
        /// The value is a number that clients increment.
        var isCounter = false
        /// The level of all its writes; nil if its writes are not durable.
        var durability: DurabilityLevel?
    }

    private struct MapName: Hashable {
        let bucket: String
        let epoch: Int64
        let number: Int64
    }

    private struct History {
        /// The last acknowledged value; nil if the document is missing.
        var acknowledged: [UInt8]?
        var unknown: [[UInt8]?] = []
        var sent: Set<[UInt8]> = []
        /// The time of each value's acknowledgement, in a bucket that may be flushed.
        var answered: [[UInt8]: UInt64] = [:]
        /// The values that a flush deleted, and the time of the flush.
        var flushed: [[UInt8]: UInt64] = [:]
    }

    private(set) var violations: [String] = []
    private(set) var tally = Tally()
    /// The members' committed logs differ: later checks are meaningless, and the run may never end.
    private(set) var hasFatalFlaw = false
    /// No node ends or is cut off in this seed, so no acknowledged write may be lost.
    let isLossless: Bool
    /// Clocks stop in this seed, so two nodes may serve a vBucket at one time.
    let isBeyondAssumptions: Bool
    private let world: SimulatedWorld
    private var documents: [Document: History] = [:]
    private var maps: [MapName: ClusterMap] = [:]

    private var ledger = Ledger()
    private var oneWriter = OneWriter()
    /// Nil in seeds without attributes.
    var attributes: AttributeLedger?

    init(_ world: SimulatedWorld, isLossless: Bool, isBeyondAssumptions: Bool) {
        self.world = world
        self.isLossless = isLossless
        self.isBeyondAssumptions = isBeyondAssumptions
    }

    /// Records a violation.
    func reportFlaw(_ sentence: String) {
        world.transcript.note("VIOLATION \(sentence)")
        if violations.count < 20 { violations.append(sentence) }
    }

    /// Records a violation after which the run is stopped: members committed different entries.
    func reportFatalFlaw(_ sentence: String) {
        reportFlaw(sentence)
        hasFatalFlaw = true
    }

    // MARK: Writes

    func sends(_ value: [UInt8], to document: Document) {
        documents[document, default: History()].sent.insert(value)
    }

    /// Records an acknowledged write; `value` is nil for a deletion.
    func acknowledged(
        _ document: Document,
        _ value: [UInt8]?,
        token: MutationToken?,
        sentAt: UInt64
    ) {
        documents[document, default: History()].acknowledged = value
        if let value, document.bucket == SimulationRun.extraName {
            documents[document]?.answered[value] = world.now
        }
        guard let token else {
            return reportFlaw("\(document.key) was acknowledged without a token")
        }
        ledger.acknowledged(document, value, token: token)
        guard !isBeyondAssumptions else { return }
        let flaws = oneWriter.acknowledged(
            LateAnswers.Token(uuid: token.uuid, seqno: token.seqno),
            in: OneWriter.Place(bucket: document.bucket, vBucket: token.vBucket),
            isDurable: document.durability != nil,
            sentAt: sentAt,
            now: world.now
        )
        for flaw in flaws { reportFlaw("OneWriter: \(flaw)") }
    }

    /// Records the output of a node that was stopped while it made this output (`OneWriter`).
    func checkDeferredOutput(_ bytes: ByteView) { oneWriter.recordLateOutput(bytes) }

    /// Records a write of unknown outcome.
    func mayHaveWritten(_ document: Document, _ value: [UInt8]?) {
        documents[document, default: History()].unknown.append(value)
    }

    func refused(_ document: Document, _ value: [UInt8]) {
        documents[document, default: History()].sent.remove(value)
    }

    /// Records a flush of a bucket that was requested at `began` and is done now.
    func flushed(_ bucket: String, began: UInt64) {
        world.transcript.note("\(bucket) is empty")
        for document in documents.keys where document.bucket == bucket {
            guard var history = documents[document] else { continue }
            for (value, time) in history.answered where time < began {
                history.flushed[value] = world.now
            }
            history.answered = history.answered.filter { $0.value >= began }
            documents[document] = history
        }
    }

    // MARK: Reads

    /// Checks a read; `isOwner` means that only the reader writes the key, and has no write
    /// pending.
    func read(_ document: Document, _ value: [UInt8]?, isOwner: Bool, askedAt: UInt64) {
        let history = documents[document] ?? History()
        if let value, !history.sent.contains(value), !document.isCounter {
            reportFlaw(
                "NoPhantom: \(document.key) read \(RegisterOperation.text(value)), which "
                    + "no client wrote"
            )
        }
        if let value, let flushed = history.flushed[value], askedAt > flushed {
            reportFlaw("Flush: \(document.key) read \(RegisterOperation.text(value)) after a flush")
        }
        guard isLossless, isOwner, document.bucket != SimulationRun.extraName else { return }
        if history.acknowledged != value, !history.unknown.contains(value) {
            reportFlaw(
                "Acknowledged: \(document.key) read \(RegisterOperation.text(value)), not "
                    + RegisterOperation.text(history.acknowledged)
            )
        }
    }

    /// Records an operation for the check of linearizability at the end.
    func did(_ document: Document, _ operation: RegisterOperation) {
        ledger.did(document, operation)
    }

    /// The operations on the documents of a bucket, by key; those of refused writes are left out.
    func operations(on bucket: String) -> [String: [RegisterOperation]] {
        ledger.operations(on: bucket)
    }

    /// The values that clients sent to the documents of a bucket and that were not refused, by key;
    /// counters are left out.
    func sentValues(of bucket: String) -> [String: Set<[UInt8]>] {
        var found: [String: Set<[UInt8]>] = [:]
        for (document, history) in documents where document.bucket == bucket {
            if !document.isCounter { found[document.key, default: []].formUnion(history.sent) }
        }
        return found
    }

    // MARK: Attributes

    /// Checks what a source shows of a version, if the seed has attributes and the key is a writer's of
    /// these.
    ///
    /// If clocks stop, two nodes may make versions of one CAS.
    func sees(
        _ version: CopyContent.Version,
        of key: ByteView,
        in bucket: String,
        by source: AttributeLedger.Source
    ) {
        guard attributes != nil, AttributeLedger.names(key), !isBeyondAssumptions else { return }
        let flaw = attributes?.sees(version, of: key.bytes, in: bucket, by: source)
        if let flaw { reportFlaw("Attributes: \(flaw)") }
    }

    /// The same for a change that a feed sends.
    func sees(
        _ change: DCPChange,
        of bucket: String,
        by source: AttributeLedger.Source,
        _ form: AttributeForm = .whole,
        hasValues: Bool = true
    ) {
        guard attributes != nil, AttributeLedger.names(change.key) else { return }
        attributes?.sent += 1
        let value = hasValues ? change.value : nil
        let version = CopyContent.Version(change.meta, value, form: form)
        sees(version, of: change.key, in: bucket, by: source)
    }

    /// Checks what an acknowledged write has made.
    func expects(
        _ expectation: AttributeLedger.Expectation,
        of key: [UInt8],
        in bucket: String,
        cas: CAS,
        history: VBucketUUID?
    ) {
        guard !isBeyondAssumptions,
            let flaw = attributes?.expect(
                expectation,
                of: key,
                in: bucket,
                cas: cas,
                history: history
            )
        else { return }
        reportFlaw("Attributes: \(flaw)")
    }

    // MARK: The end

    /// Checks the linearizability of every document whose level is `promised`.
    func linearize(_ promised: (DurabilityLevel) -> Bool) {
        let result = ledger.linearize(
            isBeyondAssumptions: isBeyondAssumptions,
            isLossless: isLossless
        ) { document in
            document.bucket != SimulationRun.extraName
                && (isLossless || document.durability.map(promised) ?? false)
        }
        tally.add(result.tally)
        result.flaws.forEach(reportFlaw)
    }

    /// Checks the acknowledged writes against the final content; `copies` returns the active copy.
    func find(in copies: (String, VBucketID) -> (CopyContent, AcknowledgedWrites.Losses)?) {
        let result = ledger.find(in: copies)
        tally.add(result.tally)
        result.flaws.forEach(reportFlaw)
    }

    // MARK: Maps

    /// Checks a client's new map.
    func sees(_ map: ClusterMap, after before: ClusterMap?) {
        if let before, map.revision < before.revision {
            reportFlaw("MapOrder: a client went from \(before.revision) to \(map.revision)")
        }
        let name = MapName(
            bucket: map.bucket,
            epoch: map.revision.epoch,
            number: map.revision.number
        )
        if let known = maps[name], known != map {
            reportFlaw("MapOrder: two maps of \(map.bucket) have the revision \(map.revision)")
        }
        maps[name] = map
    }
}
