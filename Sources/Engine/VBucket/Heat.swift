package import Bytes
package import Vocabulary

/// Which documents of a vBucket were in use, so that the next warmup loads their values first.
///
/// Classes from hottest to coldest, each a delta-coded list of seqnos. A document that has changed
/// since has another seqno and is not found, so old heat does no harm.
package struct Heat: Sendable {
    /// Seqnos in ascending order, the hottest class first.
    package private(set) var classes: [[Seqno]]

    /// A document's frequency counter is at least this in each class; below it is cold.
    package static let floors: [UInt8] = [64, 24, 8]

    package var isEmpty: Bool { classes.allSatisfy(\.isEmpty) }

    /// The encoded heat, to be stored on disk.
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

    /// Decodes heat from disk; nil if the bytes are invalid.
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

    package init(_ sample: HeatSample) {
        var classes = [[Seqno]](repeating: [], count: Heat.floors.count)
        for (seqno, frequency) in sample.uses.sorted(by: { $0.0 < $1.0 }) {
            guard let index = Heat.floors.firstIndex(where: { frequency >= $0 }) else { continue }
            // A document that moved during the sample may have been visited twice.
            if classes[index].last != seqno { classes[index].append(seqno) }
        }
        self.classes = classes
    }
}

/// Documents that were in use, while they are being collected.
package struct HeatSample: Sendable {
    fileprivate var uses: [(Seqno, UInt8)] = []

    package init() {}
}

extension VBucketCore {
    /// The heat of all documents whose value is in memory, in one hold of the lock.
    package func heat() -> Heat {
        var sample = HeatSample()
        var place: UInt64? = 0
        while let from = place { place = noteHeat(&sample, from: from, groupsMax: .max) }
        return Heat(sample)
    }

    /// Samples the documents in use in some groups; returns the start of the next call, nil at the
    /// end.
    package func noteHeat(
        _ sample: inout HeatSample,
        from start: UInt64,
        groupsMax: Int
    ) -> UInt64? {
        let coldest = Heat.floors.last ?? .max
        return table.visit(from: start, groupsMax: groupsMax) { item in
            guard !item.isDeleted, !item.isEjected, item.frequency >= coldest else { return }
            sample.uses.append((item.seqno, item.frequency))
        }
    }

    /// Restores a document's frequency of use at warmup, so that a second restart still finds it
    /// hot.
    package func warm(_ key: ByteView, hash: UInt64, to frequency: UInt8) {
        guard let item = table.find(key, hash: hash)?.item else { return }
        item.frequency = max(item.frequency, frequency)
    }
}
