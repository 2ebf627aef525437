/// Checks the replies that the clients of one run received, and records violations.
package final class Verifier {
    struct Document: Hashable {
        let bucket: String
        let key: String
    }

    private struct Place: Hashable {
        let bucket: String
        let vBucket: UInt16
    }

    /// The number of the node's current start; acknowledgements of an ended start may be lost.
    var start = 0
    package private(set) var violations: [String] = []
    package private(set) var writes = 0
    package private(set) var reads = 0
    package private(set) var observations = 0
    private var models: [Document: DocumentModel] = [:]
    /// In order of their first use: dictionary order differs between processes.
    private(set) var documents: [Document] = []
    private var places: [Document: Place] = [:]

    func add(_ document: Document, vBucket: UInt16) {
        guard models[document] == nil else { return }
        models[document] = DocumentModel()
        documents.append(document)
        places[document] = Place(bucket: document.bucket, vBucket: vBucket)
    }

    /// Records a violation; at most 20 per run.
    func recordViolation(_ sentence: String) {
        if violations.count < 20 { violations.append(sentence) }
    }

    func wrote(_ document: Document, _ value: [UInt8]?, seqno: UInt64, start: Int) {
        writes += 1
        if start == self.start {
            models[document]?.wrote(value, seqno: seqno, start: start)
        } else {
            models[document]?.mayHaveWritten(value)
        }
    }

    func mayHaveWritten(_ document: Document, _ value: [UInt8]?) {
        models[document]?.mayHaveWritten(value)
    }

    func read(_ document: Document, _ value: [UInt8]?, start: Int) {
        guard start == self.start else { return }
        reads += 1
        if let wrong = models[document]?.read(value, start: start) {
            recordViolation("\(document.bucket)/\(document.key) in start \(start): \(wrong)")
        }
    }

    func persisted(_ bucket: String, _ vBucket: UInt16, through seqno: UInt64, start: Int) {
        observations += 1
        let place = Place(bucket: bucket, vBucket: vBucket)
        for document in documents where places[document] == place {
            models[document]?.persisted(through: seqno, start: start)
        }
    }

    func nodeStopped() {
        for document in documents { models[document]?.stopped(start: start) }
    }

    func nodeStarts() {
        start += 1
        for document in documents { models[document]?.restarted() }
    }
}
