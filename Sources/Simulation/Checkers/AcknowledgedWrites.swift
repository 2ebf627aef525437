package import Vocabulary

/// Where the acknowledged writes of a vBucket are in the end, by their tokens.
///
/// A token is a history and a seqno in it. Of the log that is left in the end:
///
/// - it has the history that far: the write is there, or a newer one of its key;
/// - it has it, and another one follows it from an earlier seqno on: a promotion lost the write, as
///   promotions may (`Losses`), but nothing else;
/// - it does not have it at all: so it was with all of the vBucket, or a promotion at an earlier
///   seqno put the whole history aside.
package struct AcknowledgedWrites: Sendable {
    package struct Write: Hashable, Sendable {
        package var key: [UInt8]
        /// Nil for a removal.
        package var value: [UInt8]?
        package var uuid: VBucketUUID
        package var seqno: Seqno

        package init(key: [UInt8], value: [UInt8]?, uuid: VBucketUUID, seqno: Seqno) {
            self.key = key
            self.value = value
            self.uuid = uuid
            self.seqno = seqno
        }
    }

    /// What may have become of a vBucket.
    package enum Losses: Sendable {
        /// Nothing: nobody died, was cut off or failed over.
        case none
        case byPromotion
        /// All copies were gone once, or it was emptied, or deleted and made again.
        case ofEverything
    }

    package struct Findings: Hashable, Sendable {
        package var found = 0
        package var lost = 0
        package var flaws: [String] = []

        package init() {}
    }

    private var writes: [Write] = []

    package init() {}

    package mutating func add(_ write: Write) { writes.append(write) }

    package func findings(in copy: CopyContent, _ losses: Losses) -> Findings {
        var findings = Findings()
        for write in writes {
            let name = String(decoding: write.key, as: UTF8.self)
            let end = copy.log.end(of: write.uuid, high: copy.covered)
            if let end, end >= write.seqno {
                findings.found += 1
                if let flaw = flaw(write, copy.documents[write.key]) {
                    findings.flaws.append("\(name), \(write.seqno.value), \(flaw)")
                }
            } else {
                findings.lost += 1
                if !isExplained(write, copy.log, losses) {
                    findings.flaws.append("\(name), \(write.seqno.value), is gone, by nothing")
                }
            }
        }
        return findings
    }

    private func isExplained(_ write: Write, _ log: FailoverLog, _ losses: Losses) -> Bool {
        switch losses {
        case .none: false
        // Of the history that goes on, nothing may be missing.
        case .ofEverything: log.current.uuid != write.uuid
        case .byPromotion: log.current.uuid != write.uuid && log.entries.count > 1
        }
    }

    private func flaw(_ write: Write, _ version: CopyContent.Version?) -> String? {
        guard let version else {
            // Its tombstone may have been forgotten.
            return write.value == nil ? nil : "is in the history that is left, and not there"
        }
        if version.seqno > write.seqno { return nil }
        if version.seqno < write.seqno {
            return "is in the history that is left, and \(version.seqno.value) is there"
        }
        if version.isDeleted, write.value == nil { return nil }
        // What memory does not have may be the same.
        if !version.isDeleted, version.value == nil || version.value == write.value { return nil }
        return "has become \(version)"
    }
}
