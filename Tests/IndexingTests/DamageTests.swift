import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

@Suite struct DamageTests {
    private func model() throws -> TreeModel {
        var random = SeededRandom(seed: 700)
        var model = TreeModel(NodeFormat(bodyBytesMax: 300))
        for _ in 0..<150 { model.entries[random.key(longest: 30)] = random.entry(longest: 200) }
        model.load()
        return model
    }

    private func isNode(_ bytes: [UInt8], _ format: NodeFormat) -> Bool {
        do {
            _ = try MemoryStore.node(IndexNodeID(9_999), bytes, format)
            return true
        } catch {
            if case .damaged(IndexNodeID(9_999), _) = error { return false }
            Issue.record("\(error)")
            return true
        }
    }

    @Test func flippedOrTruncatedNodeIsDamaged() throws {
        let model = try model()
        for body in model.store.bodies.values {
            #expect(isNode(body, model.store.format))
            for offset in body.indices {
                var flipped = body
                flipped[offset] ^= 1 << UInt8(offset % 8)
                #expect(!isNode(flipped, model.store.format))
                flipped[offset] = ~body[offset]
                #expect(!isNode(flipped, model.store.format))
                #expect(!isNode(Array(body[..<offset]), model.store.format))
            }
        }
    }

    /// With a right checksum, so that the other checks must find what a walk would stumble over.
    @Test func treeOfHostileNodesEndsInErrorsOnly() throws {
        var random = SeededRandom(seed: 701)
        var model = try model()
        let bodies = model.store.bodies
        let ids = bodies.keys.sorted()
        var accepted = 0
        var refused = 0
        for _ in 0..<4_000 {
            let id = ids[random.below(ids.count)]
            var body = try #require(bodies[id])
            for _ in 0...random.below(3) {
                let value = UInt8(truncatingIfNeeded: random.next())
                body[random.below(body.count - 4)] = random.below(2) == 0 ? value : value & 3
            }
            if random.below(4) == 0 { body.removeSubrange(random.below(body.count)...) }
            if body.count > 4 {
                let checksum = body.dropLast(4).withUnsafeBytes { CRC32C.checksum(ByteView($0)) }
                withUnsafeBytes(of: checksum.littleEndian) {
                    body.replaceSubrange((body.count - 4)..., with: $0)
                }
            }
            model.store.bodies[id] = body
            do {
                let walk = RangeWalk(model.tree, descending: random.below(2) == 0)
                while try walk.next() != nil {}
                _ = try model.tree.reduceNumbers(partials: nil)
                _ = try model.tree.count(KeyRange(start: random.key(longest: 9)))
                let batch = EditBatch()
                for _ in 0..<20 {
                    random.key(longest: 9).withView {
                        random.below(2) == 0
                            ? batch.put(key: $0, vBucket: VBucketID(1), value: .empty)
                            : batch.remove(key: $0)
                    }
                }
                _ = try TreeEdit.apply(batch, to: model.tree, numbers: model.numbers)
                accepted += 1
            } catch {
                refused += 1
                if case .unreadable(let text) = error { #expect(text == "big value is missing") }
            }
            _ = TreeCheck.run(model.tree)
            model.store.bodies[id] = bodies[id]
        }
        #expect(accepted > 20 && refused > 1_000, "\(accepted), \(refused)")
        #expect(try model.difference() == nil)
        _ = try model.apply([])
    }

    @Test func damagedTableOfPartialsCountsAsAbsent() {
        let writer = PartialTableWriter()
        for child: UInt64 in 1..<20 {
            [UInt8](repeating: UInt8(child), count: Int(child)).withView {
                writer.append(IndexNodeID(child * 100), version: UInt32(child), $0)
            }
        }
        let body = writer.finish().bytes
        let table = body.withView { PartialTable(body: $0) }
        #expect(table?.entries.count == 19)
        #expect(table?.result(of: IndexNodeID(700), version: 7, hint: 3)?.count == 7)
        #expect(table?.result(of: IndexNodeID(700), version: 8, hint: 6) == nil)
        #expect(table?.result(of: IndexNodeID(701), version: 7, hint: 6) == nil)
        for offset in body.indices {
            var flipped = body
            flipped[offset] ^= 0x10
            #expect(flipped.withView { PartialTable(body: $0) } == nil)
            #expect(Array(body[..<offset]).withView { PartialTable(body: $0) } == nil)
        }
    }
}
