internal import Bytes
internal import Indexing
internal import JSON
package import Persistence
internal import Vocabulary

/// The check of an index's file: everything that can be verified without the documents and the
/// functions.
///
/// Not verified: whether a row is what the map function emits for its document, and the value of a
/// stored result of a reduction in JavaScript.
extension IndexInspection {
    /// The numbers of rows, documents, nodes and partial results that a check has read.
    package struct Extent: Hashable, Sendable {
        package var rows: UInt64 = 0
        package var documents: UInt64 = 0
        package var nodes = 0
        /// Stored partial results that were compared with their rows.
        package var partials = 0
    }

    /// Checks the newest commit; takes some microseconds for each row.
    ///
    /// A part that cannot be read is a violation too.
    ///
    /// - Parameter report: Called with a sentence for each violation.
    /// - Throws: `StorageError` if no snapshot can be read.
    /// - Returns: What was read.
    package func check(
        _ report: @escaping (String) -> Void
    ) throws(StorageError) -> Extent {
        try read { (reads, head) in
            var check = FileCheck(reads, head, report: report)
            check.checkFile(named: path)
            if check.checkTrees() {
                check.checkRows()
                check.checkSlots()
            }
            check.checkRest()
            return check.extent
        }
    }
}

/// The parts of a check; each reports what it finds and continues.
private struct FileCheck {
    private let reads: IndexReads
    private let head: IndexHead
    private let nodes: StoredNodes
    private let report: (String) -> Void
    private(set) var extent = IndexInspection.Extent()

    init(_ reads: IndexReads, _ head: IndexHead, report: @escaping (String) -> Void) {
        self.reads = reads
        self.head = head
        self.report = report
        nodes = StoredNodes(reads)
        extent.rows = head.main.rows
        extent.documents = head.back.rows
    }

    private var main: Tree { nodes.tree(head.main, .row) }
    private var back: Tree { nodes.tree(head.back, .document) }

    /// The result of `body`; nil if a part cannot be read, which is reported.
    private func attempt<Result>(
        _ what: String,
        _ body: () throws(StorageError) -> Result
    ) -> Result? {
        do throws(StorageError) {
            return try body()
        } catch {
            report("\(what) cannot be read: \(error.description)")
            return nil
        }
    }

    private func attemptTree<Result>(
        _ what: String,
        _ body: () throws(IndexError) -> Result
    ) -> Result? {
        attempt(what) { () throws(StorageError) in try reading(body) }
    }

    // MARK: Parts

    /// SQLite's pages, and the identity.
    func checkFile(named path: String) {
        let faults = attempt("the file", { () throws(StorageError) in try reads.pageFaults() })
        for fault in faults ?? [] { report("SQLite finds: \(fault)") }
        let identity = attempt(
            "the identity",
            { () throws(StorageError) in try reads.identity() }
        )
        let name = path.split(separator: "/").last.map { $0.prefix { $0 != "." } }
        if let identity, let name, name != identity.signature {
            report("the file is named \(name), but it has the index \(identity.signature)")
        }
    }

    /// Both trees, and whether they are all that is stored; returns whether rows can be compared.
    mutating func checkTrees() -> Bool {
        let main = TreeCheck.run(main)
        let back = TreeCheck.run(back)
        extent.nodes = main.nodes.count + back.nodes.count
        for violation in main.violations { report("tree of rows: \(violation)") }
        for violation in back.violations { report("tree of documents: \(violation)") }
        let isSound = main.violations.isEmpty && back.violations.isEmpty
        for id in main.nodes.intersection(back.nodes).sorted() { report("\(id) is in both trees") }
        for value in main.bigValues.intersection(back.bigValues).sorted() {
            report("value \(value.value) is in both trees")
        }
        let values = main.bigValues.union(back.bigValues)
        // Below a damaged node, nothing is counted, and what is stored may be in use.
        let hasValues = checkValues(values, reportsUnused: isSound)
        if isSound {
            checkNodes(main.nodes.union(back.nodes))
            checkCounts(main.rows, back.rows)
        }
        return isSound && hasValues
    }

    /// Every value of an entry is stored, and nothing else is.
    private func checkValues(_ used: Set<IndexValueID>, reportsUnused: Bool) -> Bool {
        var isComplete = true
        for id in used.sorted() {
            if id >= head.nextValue { report("value \(id.value) is not allocated") }
            let value = attemptTree("value \(id.value)") { () throws(IndexError) in
                try nodes.bigValue(id)
            }
            isComplete = isComplete && value != nil
        }
        guard reportsUnused else { return isComplete }
        _ = attempt("the values") { () throws(StorageError) in
            let rest = try unfinishedCompaction.value
            try reads.forEachValue { id in
                if !used.contains(id), id >= rest, id < head.nextValue {
                    report("value \(id.value) belongs to no entry")
                }
                return true
            }
        }
        return isComplete
    }

    /// Below these numbers, and from the head's next ones on, a compaction that has not ended may have
    /// left nodes and values.
    private var unfinishedCompaction: (node: IndexNodeID, value: IndexValueID) {
        get throws(StorageError) {
            guard case .trees(let node, let value)? = try reads.unfinishedCompaction() else {
                return (.none, IndexValueID(0))
            }
            return (node, value)
        }
    }

    private func checkNodes(_ used: Set<IndexNodeID>) {
        for id in used.sorted() where id >= head.nextNode { report("\(id) is not allocated") }
        _ = attempt("the nodes") { () throws(StorageError) in
            let rest = try unfinishedCompaction.node
            try reads.forEachNode { id, _ in
                if !used.contains(id), id >= rest, id < head.nextNode {
                    report("\(id) belongs to no tree")
                }
                return true
            }
        }
    }

    /// The stored row counts and positions of vBuckets, against the rows by vBucket.
    private func checkCounts(_ rows: [UInt64], _ documents: [UInt64]) {
        guard
            let vBuckets = attempt(
                "the vBuckets",
                { () throws(StorageError) in try reads.vBuckets() }
            )
        else { return }
        var known: Set<UInt16> = []
        for vBucket in vBuckets {
            let number = vBucket.id.number
            known.insert(number)
            let found = rows[Int(number)]
            if found != vBucket.rows {
                report("\(vBucket.id) has \(found) rows, but \(vBucket.rows) are noted")
            }
            let position = vBucket.position
            if position.seqno > position.snapshotEnd || position.snapshotStart > position.seqno {
                report(
                    "\(vBucket.id) is at \(position.seqno.value), outside of its snapshot "
                        + "\(position.snapshotStart.value) to \(position.snapshotEnd.value)"
                )
            }
        }
        for number in UInt16.min...UInt16.max where !known.contains(number) {
            let id = VBucketID(number)
            let (found, entries) = (rows[Int(number)], documents[Int(number)])
            guard found > 0 || entries > 0 else { continue }
            report("\(id) has \(found) rows and \(entries) documents, but no position")
        }
    }

    /// Every row is one that a document's entry has, and the other way round.
    func checkRows() {
        let violations = attemptTree("the rows") { () throws(IndexError) in
            try IndexCheck.violations(main: main, back: back) { row, id, key in
                RowKey.append(sortKey: row.sortKey, id: id, ordinal: row.number, to: key)
            }
        }
        for violation in violations ?? [] { report(violation) }
        checkKeys()
    }

    /// Every key is that of a row, with a JSON value before the document's ID.
    private func checkKeys() {
        _ = attemptTree("the rows") { () throws(IndexError) in
            let text = ByteWriter()
            let walk = RangeWalk(main)
            while let entry = try walk.next() {
                text.removeAll(keepingAtMost: 1 << 20)
                let key = RowKey(entry.key)
                let length = key.flatMap { Collation.appendJSON(ofSortKey: $0.sortKey, to: text) }
                if length == nil || length != key?.sortKey.count {
                    report("the key of a row of \(entry.vBucket) is malformed")
                }
            }
        }
    }

    /// Stored partial results, of which some may be missing: queries compute these from rows.
    mutating func checkSlots() {
        let slots = attempt("the slots", { () throws(StorageError) in try reads.slots() })
        for slot in slots ?? [] {
            let partials = StoredPartials(reads, slot.id)
            let isNumeric = slot.kind == SlotDefinition.Kind.numeric.rawValue
            let found = attemptTree("slot \(slot.id.value)") { () throws(IndexError) in
                if isNumeric { return try SlotCheck.runNumeric(main, partials) }
                return try SlotCheck.run(main, partials) { _, _ in true }
            }
            guard let found else { continue }
            if isNumeric { extent.partials += found.valid }
            for id in found.wrong {
                report("slot \(slot.id.value): the stored result of \(id) is not that of its rows")
            }
        }
    }

    /// The checksums of the rows that nothing else reads.
    func checkRest() {
        _ = attempt("the errors", { () throws(StorageError) in try reads.faults() })
        _ = attempt("the runs", { () throws(StorageError) in try reads.runs() })
        _ = attempt("the log") { () throws(StorageError) in
            try reads.forEachLogEntry(after: IndexCommit(0)) { _, _ in true }
        }
    }
}
