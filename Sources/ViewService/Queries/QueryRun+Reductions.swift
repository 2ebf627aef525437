internal import Bytes
internal import Indexing
internal import ScriptProcesses
internal import Seams
internal import Wire

/// The values of groups, from the partial values of several nodes.
extension QueryRun {
    /// Groups in one exchange with a script process.
    static let groupsMax = 256
    /// Bytes of partial values in one exchange, but for the last group's.
    static let groupBytesMax = 256 << 10

    // MARK: Built-in

    /// Merges partial values, and writes the group; a group without rows is none.
    func writeGroup(_ rows: [MergedRow], by reduction: BuiltinReduction) {
        let isStopped = version.plan.merge.failurePolicy == .stopRows
        var total = NumericPartial()
        for row in rows {
            guard let partial = row.withRow({ NumericPartial(encoded: $0.value) }) else {
                reject(row)
                if isStopped { return }
                continue
            }
            total.merge(partial)
        }
        guard total.count > 0, let first = rows.first else { return }
        answer.scratch.removeAll()
        guard total.appendResult(of: reduction, to: answer.scratch) else {
            note(reduction.valueError)
            if isStopped { endRows() }
            return
        }
        let isWritten = first.withRow { row in
            answer.reply.appendReduction(group: row.key, value: answer.scratch.view)
        }
        if !isWritten { for row in rows { reject(row) } }
    }

    // MARK: Custom

    /// Reduces the partial values of the gathered groups again.
    func fetchReductions() {
        guard case .custom(let function) = version.reduction else { return }
        var work = ScriptWorkWriter(.rereduce, function)
        var groups: [Int] = []
        for (index, group) in answer.gathered.enumerated() where group.rows.count > 1 {
            let values = QueryRun.values(of: group.rows)
            guard work.hasRoom(for: values.count + 4) else {
                return fail("The partial results of a group are too large to be reduced.")
            }
            work.append(first: ScriptWorkWriter.null, second: values.view)
            groups.append(index)
        }
        guard !groups.isEmpty else { return complete(answer.gathered) }
        answer.isFetching = true
        let (lane, places) = (dependencies.lane, groups)
        dependencies.scripts.submit(work.finish()) { [weak self] results in
            lane.post { [weak self] in self?.step { $0.receive(results, forGroups: places) } }
        }
    }

    /// A JSON array of partial values.
    private static func values(of rows: [MergedRow]) -> ByteWriter {
        let values = ByteWriter()
        for row in rows {
            values.append(values.count == 0 ? UInt8(ascii: "[") : UInt8(ascii: ","))
            row.withRow { values.append($0.value) }
        }
        values.append(UInt8(ascii: "]"))
        return values
    }

    /// Adds the values to their groups; the rows end before a group whose reduction failed.
    private func receive(_ results: ScriptResults, forGroups groups: [Int]) {
        guard stage == .rows else { return }
        var gathered = answer.gathered
        results.forEachReduction { item, text in gathered[groups[item]].value = text.bytes }
        let failure = results.failures.min { $0.item < $1.item }
        let missing = groups.first { gathered[$0].value == nil }
        let failed = [failure.map { groups[$0.item] }, missing].compactMap { $0 }.min()
        if let failed {
            note(failure.map(QueryRun.reason) ?? "The reduce function had no result.")
            complete(Array(gathered[..<failed]))
            endRows()
        } else {
            complete(gathered)
        }
        proceed()
    }

    private static func reason(of failure: ScriptResults.Failure) -> String {
        let isUndefined = failure.kind == .problem(.undefined)
        return isUndefined
            ? "The reduce function is not valid." : ReduceFailure(failure).reason
    }

    // MARK: Errors

    /// Ends the rows before the gathered ones.
    private func fail(_ reason: String) {
        note(reason)
        complete([])
        endRows()
    }

    /// Adds an entry to `errors`, unless it is there.
    func note(_ reason: String) {
        if !answer.errors.contains(reason) { answer.errors.append(reason) }
    }

    /// No row follows the complete ones.
    func endRows() { perform(coordination.close()) }
}
