internal import Bytes
internal import Foundation
internal import JSON
internal import LinuxPlatform
internal import Persistence
internal import Seams
internal import Vocabulary

/// Writes the same documents as blocks (the product's Persistence) and as rows, pass by pass in
/// turns, with two writer threads over four lanes, and prints the times as JSON.
struct FlushComparison {
    private struct Pass {
        let documents: Int
        let seconds: Double
        let cpuSeconds: Double
    }

    static let lanes = 4

    private let directory: String
    private let documents: Int
    private let passes: Int

    init(_ directory: String, documents: Int, passes: Int) {
        self.directory = directory
        self.documents = documents
        self.passes = passes
    }

    func run() throws {
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let writers = (0..<2).map { world.environment.lanes.makeLane("writer \($0)") }
        // Each layout keeps seqnos of its own; the changes are the same.
        let (forBlocks, forRows) = (
            FlushDocuments(count: documents), FlushDocuments(count: documents)
        )
        let blocks = try BlockLanes(world.environment.disk, directory + "/blocks", forBlocks)
        let rows = try RowLanes(directory + "/rows", forRows)
        var found: [String: [Pass]] = [:]
        for layout in ["rows", "blocks"] {
            let lanes: any FlushLanes = layout == "rows" ? rows : blocks
            found[layout + ".insert"] = [
                try time(writers) { try lanes.insert(lane: $0) }
            ]
        }
        for pass in 0..<passes {
            for layout in ["rows", "blocks"] {
                let lanes: any FlushLanes = layout == "rows" ? rows : blocks
                found[layout + ".overwrite", default: []].append(
                    try time(writers) { try lanes.overwrite(lane: $0, pass: pass) }
                )
            }
        }
        try blocks.finish()
        try rows.finish()
        print(found, blocks, rows, forBlocks.compressedShare)
    }

    /// Runs two writers, each on two of the four lanes, with one commit of each lane in turn.
    private func time(
        _ writers: [any Lane],
        _ work: @escaping @Sendable (Int) throws -> [() throws -> Int]
    ) throws -> Pass {
        let done = DispatchSemaphore(value: 0)
        let result = Guarded<(documents: Int, failure: String?)>((0, nil))
        let start = (Date.now, clock())
        for (number, writer) in writers.enumerated() {
            writer.post {
                do {
                    let steps = try stride(from: number, to: FlushComparison.lanes, by: 2).map {
                        try work($0)
                    }
                    let count = steps.map(\.count).max() ?? 0
                    for place in 0..<count {
                        for lane in steps where place < lane.count {
                            let written = try lane[place]()
                            result.withLock { $0.documents += written }
                        }
                    }
                } catch {
                    result.withLock { $0.failure = "\(error)" }
                }
                done.signal()
            }
        }
        for _ in writers { done.wait() }
        let (count, failure) = result.withLock { $0 }
        if let failure { throw MicroError(description: failure) }
        return Pass(
            documents: count,
            seconds: Date.now.timeIntervalSince(start.0),
            cpuSeconds: Double(clock() - start.1) / Double(CLOCKS_PER_SEC)
        )
    }

    private func print(
        _ found: [String: [Pass]],
        _ blocks: BlockLanes,
        _ rows: RowLanes,
        _ compressedShare: Double
    ) {
        let text = JSONWriter.text { json in
            json.object { json in
                json.member("documents", documents)
                json.member("rawBytes", documents * FlushDocuments.valueBytes)
                json.member("lz4PerDocument", compressedShare)
                for layout in ["blocks", "rows"] {
                    json.object(layout) { json in
                        for phase in ["insert", "overwrite"] {
                            json.array(phase) { json in
                                for pass in found["\(layout).\(phase)"] ?? [] {
                                    write(pass, &json)
                                }
                            }
                        }
                        if layout == "blocks" {
                            json.member("deadShareMax", blocks.deadShareMax)
                            json.member("bytesBeforeCompaction", blocks.bytesBefore)
                            json.member("compactedBytes", blocks.bytesAfter)
                        } else {
                            json.member("compactedBytes", rows.bytesAfter)
                        }
                    }
                }
            }
        }
        FileHandle.standardOutput.write(Data(text + [10]))
    }

    private func write(_ pass: Pass, _ json: inout JSONWriter) {
        json.object { json in
            json.member("documents", pass.documents)
            json.member("seconds", pass.seconds)
            json.member("perSecond", Double(pass.documents) / pass.seconds)
            json.member("cpuMicroseconds", 1e6 * pass.cpuSeconds / Double(pass.documents))
        }
    }
}

/// A layout under test.
///
/// A step is one commit with its compaction or checkpoint, and returns the number of documents that
/// it wrote.
protocol FlushLanes: Sendable {
    func insert(lane: Int) throws -> [() throws -> Int]
    func overwrite(lane: Int, pass: Int) throws -> [() throws -> Int]
}
