package import Vocabulary

/// Checks the acknowledged writes of a vBucket against its final content, by their tokens.
///
/// A token is a history (vBucket UUID) and a seqno in it. The final failover log
///
/// - has the history up to the seqno: the write must be there, or a newer one of its key;
/// - has the history, but the next one begins at an earlier seqno: a promotion lost the write,
///   which only promotions may (`Losses`);
/// - does not have the history: the whole vBucket was lost, or a promotion at an earlier seqno
///   replaced the whole history.
package struct AcknowledgedWrites: Sendable {
    package struct Write: Hashable, Sendable {
        package var key: [UInt8]
        /// Nil for a deletion.
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

    /// Which losses of a vBucket are allowed.
    package enum Losses: Sendable {
        /// None: no node ended, was cut off or failed over.
        case none
        /// Changes that a promoted copy did not cover.
        case byPromotion
        /// Everything: all copies were lost once, or the vBucket was emptied or deleted and
        /// recreated.
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

    /// Counts found and lost writes in the final copy; the flaws are sentences.
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
                if !isExplained(write, copy.log, losses: losses) {
                    findings.flaws.append("\(name), \(write.seqno.value), is lost without a cause")
                }
            }
        }
        return findings
    }

    private func isExplained(_ write: Write, _ log: FailoverLog, losses: Losses) -> Bool {
        switch losses {
        case .none: false
        // Writes of the current history must not be missing.
        case .ofEverything: log.current.uuid != write.uuid
        case .byPromotion: log.current.uuid != write.uuid && log.entries.count > 1
        }
    }

    private func flaw(_ write: Write, _ version: CopyContent.Version?) -> String? {
        guard let version else {
            // A tombstone may have been purged.
            return write.value == nil ? nil : "is in the final history, but missing"
        }
        if version.seqno > write.seqno { return nil }
        if version.seqno < write.seqno {
            return "is in the final history, but found \(version.seqno.value)"
        }
        if version.isDeleted, write.value == nil { return nil }
        // A value that is not in memory cannot be compared.
        if !version.isDeleted, version.value == nil || version.value == write.value { return nil }
        return "has become \(version)"
    }
}
