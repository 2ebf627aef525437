import Bytes
import Indexing
import Vocabulary

/// The stored results of one reduction in memory.
final class PartialStore: PartialSource {
    var tables: [IndexNodeID: [UInt8]] = [:]

    func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable? {
        tables[node].flatMap { body in body.withUnsafeBytes { PartialTable(body: ByteView($0)) } }
    }

    /// Adds results to the tables of their parents, as the index's writer does.
    func store(_ computed: [ComputedPartial], _ store: MemoryStore) throws {
        for (parent, results) in Dictionary(grouping: computed, by: \.parent) {
            var all: [IndexNodeID: (UInt32, [UInt8])] = [:]
            if let table = try partials(of: parent) {
                for entry in table.entries {
                    let result = table.result(of: entry.child, version: entry.version, hint: 0)
                    all[entry.child] = (entry.version, result?.bytes ?? [])
                }
            }
            for result in results { all[result.child] = (result.version, result.result) }
            let writer = PartialTableWriter()
            for (child, result) in all.sorted(by: { $0.key < $1.key }) {
                result.1.withView { writer.append(child, version: result.0, $0) }
            }
            tables[parent] = writer.finish().bytes
        }
    }
}
