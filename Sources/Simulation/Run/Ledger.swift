internal import DivanClient
internal import Vocabulary

/// Clients' operations and acknowledged writes, checked at the end of a run.
struct Ledger {
    struct Result {
        var tally = Tally()
        var flaws: [String] = []
    }

    private var operations: [Verifier.Document: [RegisterOperation]] = [:]
    private var writes: [OneWriter.Place: AcknowledgedWrites] = [:]

    mutating func did(_ document: Verifier.Document, _ operation: RegisterOperation) {
        operations[document, default: []].append(operation)
    }

    mutating func acknowledged(
        _ document: Verifier.Document,
        _ value: [UInt8]?,
        token: MutationToken
    ) {
        let place = OneWriter.Place(bucket: document.bucket, vBucket: token.vBucket)
        let write = AcknowledgedWrites.Write(
            key: Array(document.key.utf8),
            value: value,
            uuid: token.uuid,
            seqno: token.seqno
        )
        writes[place, default: AcknowledgedWrites()].add(write)
    }

    /// The operations on the documents of a bucket, by key.
    func operations(on bucket: String) -> [String: [RegisterOperation]] {
        var found: [String: [RegisterOperation]] = [:]
        for (document, all) in operations where document.bucket == bucket {
            found[document.key, default: []] += all
        }
        return found
    }

    /// Checks the linearizability of the wanted documents.
    ///
    /// If `isBeyondAssumptions`, leases do not exclude a second writer, so reads are not checked.
    func linearize(
        isBeyondAssumptions: Bool,
        isLossless: Bool = true,
        _ isWanted: (Verifier.Document) -> Bool
    ) -> Result {
        var result = Result()
        let documents = operations.keys.filter(isWanted).sorted {
            ($0.bucket, $0.key) < ($1.bucket, $1.key)
        }
        for document in documents {
            let all = operations[document] ?? []
            let counted = isBeyondAssumptions ? all.filter { !$0.isRead } : all
            result.tally[.check, "linearizedKeys"] += 1
            // Keys of a promised level in seeds in which writes may be lost.
            if !isLossless { result.tally[.check, "promisedKeys"] += 1 }
            switch Linearizability.check(counted) {
            case .explained(let checked):
                result.tally[.check, "linearizedOperations"] += checked
            case .tooMany(let checked):
                result.tally[.check, "linearizedOperations"] += checked
                result.tally[.check, "abandonedKeys"] += 1
            case .impossible(let operation, let states):
                let possible = states.map(RegisterOperation.text).joined(separator: " or ")
                result.flaws.append(
                    "Linearizable: \(document.bucket) \(document.key): \(operation), but the "
                        + "value was \(possible)"
                )
            }
        }
        return result
    }

    func find(
        in copies: (String, VBucketID) -> (CopyContent, AcknowledgedWrites.Losses)?
    ) -> Result {
        var result = Result()
        let places = writes.keys.sorted { ($0.bucket, $0.vBucket) < ($1.bucket, $1.vBucket) }
        for place in places {
            guard let (copy, losses) = copies(place.bucket, place.vBucket) else { continue }
            let findings = writes[place]?.findings(in: copy, losses)
            result.tally[.check, "foundWrites"] += findings?.found ?? 0
            result.tally[.check, "lostWrites"] += findings?.lost ?? 0
            for flaw in findings?.flaws.prefix(2) ?? [] {
                result.flaws.append("Acknowledged: \(place.bucket) \(place.vBucket): \(flaw)")
            }
        }
        return result
    }
}
