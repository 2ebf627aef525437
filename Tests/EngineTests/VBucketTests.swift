import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct VBucketTests {
    @Test(arguments: 1...60)
    func persistentVBucketAgreesWithModelAfterRandomOperations(seed: UInt64) throws {
        let duel = try Duel(.persistent, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: seed % 2 == 0 ? 8 : 60)
            if step % 20 == 0 { duel.expectSameState() }
        }
        duel.expectSameState()
        #expect(duel.fetches > 0 || duel.hasFailed)
    }

    @Test(arguments: 101...120)
    func ephemeralVBucketAgreesWithModelAfterRandomOperations(seed: UInt64) throws {
        let duel = try Duel(.ephemeral, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: 20)
            if step % 20 == 0 { duel.expectSameState() }
        }
        #expect(duel.model.ejectedCount == 0)
    }

    /// Nearly nothing resident, and still every CAS, revision and count as in the model.
    @Test(arguments: 201...260)
    func fullEvictionVBucketAgreesWithModelAfterRandomOperations(seed: UInt64) throws {
        let duel = try Duel(.persistent, policy: .fullEviction, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: seed % 2 == 0 ? 12 : 200)
            if step % 20 == 0 { duel.expectSameState() }
        }
        duel.expectSameState()
        #expect(duel.wholeFetches > 20 || duel.hasFailed)
        #expect(duel.tombstoneFetches > 0 || duel.hasFailed)
    }
}
