package import Bytes
package import Vocabulary

/// Which documents of a vBucket were in use, so that the next warmup brings those back first.
///
/// Classes from hottest to coldest, each a list of seqnos, delta-coded. A document that changed
/// since is simply not found again, so old heat does no harm.
package struct Heat: Sendable {
    /// Seqnos in ascending order, the hottest class first.
    package private(set) var classes: [[Seqno]]

    /// A document's frequency counter is at least this in each class; below it is cold.
    private static let floors: [UInt8] = [64, 24, 8]

    package var isEmpty: Bool { classes.allSatisfy(\.isEmpty) }

    /// What is written to disk.
    package var bytes: [UInt8] {
        let writer = ByteWriter()
        for seqnos in classes {
            LEB128.append(UInt64(seqnos.count), to: writer)
            var last: UInt64 = 0
            for seqno in seqnos {
                LEB128.append(seqno.value - last, to: writer)
                last = seqno.value
            }
        }
        return writer.bytes
    }

    /// What was read from disk; nil where it is nonsense.
    package init?(_ view: ByteView) {
        var reader = ByteReader(view)
        classes = []
        for _ in Heat.floors {
            guard let count = reader.leb128(), count <= UInt64(view.count) else { return nil }
            var seqnos: [Seqno] = []
            var last: UInt64 = 0
            for _ in 0..<count {
                guard let step = reader.leb128() else { return nil }
                let (next, overflow) = last.addingReportingOverflow(step)
                guard !overflow else { return nil }
                last = next
                seqnos.append(Seqno(last))
            }
            classes.append(seqnos)
        }
    }

    fileprivate init(_ uses: [(Seqno, UInt8)]) {
        var classes = [[Seqno]](repeating: [], count: Heat.floors.count)
        for (seqno, frequency) in uses.sorted(by: { $0.0 < $1.0 }) {
            guard let index = Heat.floors.firstIndex(where: { frequency >= $0 }) else { continue }
            classes[index].append(seqno)
        }
        self.classes = classes
    }
}

extension VBucketCore {
    /// The heat of all documents whose value is in memory.
    package func heat() -> Heat {
        var uses: [(Seqno, UInt8)] = []
        var place: UInt64? = 0
        while let from = place {
            place = table.visit(from: from, groupsMax: .max) { item in
                guard !item.isDeleted, !item.isEjected else { return }
                uses.append((item.seqno, item.frequency))
            }
        }
        return Heat(uses)
    }
}
