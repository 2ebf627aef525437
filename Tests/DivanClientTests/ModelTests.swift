import Bytes
import DivanClient
import Foundation
import Testing
import Vocabulary

/// 10 000 mixed operations of eight concurrent callers, each checked against a model.
///
/// Every caller has its own keys and knows their exact state. All callers share one counter.
@Suite struct ModelTests {
    private struct Known {
        var value: [UInt8]
        var cas: CAS
    }

    /// One caller's keys.
    private struct Caller {
        let client: Client
        let name: Int
        var random: SeededRandom
        var model: [String: Known] = [:]
        var complaints: [String] = []
        var increments = 0

        mutating func run(_ count: Int) async {
            for _ in 0..<count {
                do throws(ClientError) {
                    try await step()
                } catch {
                    complaints.append("\(error)")
                }
            }
        }

        private mutating func step() async throws(ClientError) {
            let key = "caller\(name)-\(Int.random(in: 0..<30, using: &random))"
            let letter = UInt8.random(in: 97...122, using: &random)
            let count = [0, 1, 40, 900, 70_000][Int.random(in: 0..<5, using: &random)]
            let value = [UInt8](repeating: letter, count: count)
            let before = model[key]
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2:
                let found = await find(key)
                if found != before?.value { complaints.append("\(key) has another value") }
            case 3, 4: note(key, value, try await client.set(key, value).cas)
            case 5:
                await expect(before == nil ? nil : .exists) {
                    $0.add(key.bytes, value, done: $1)
                } then: {
                    $0.note(key, value, $1)
                }
            case 6:
                await expect(before == nil ? .notFound : nil) {
                    $0.append(key.bytes, [letter], done: $1)
                } then: {
                    $0.note(key, (before?.value ?? []) + [letter], $1)
                }
            case 7:
                await expect(before == nil ? .notFound : nil) {
                    $0.delete(key.bytes, done: $1)
                } then: { caller, _ in
                    caller.model[key] = nil
                }
            case 8:
                guard let before else { return }
                let wrong = CAS(before.cas.value ^ 1)
                await expect(.exists) {
                    $0.replace(key.bytes, value, options: .ifUnchanged(since: wrong), done: $1)
                } then: {
                    $0.note(key, value, $1)
                }
                let right = WriteOptions.ifUnchanged(since: before.cas)
                let made = try await client.perform {
                    $0.replace(key.bytes, value, options: right, done: $1)
                }
                note(key, value, made.cas)
            default:
                try await client.perform { $0.increment("shared".bytes, initial: 1, done: $1) }
                increments += 1
            }
        }

        private mutating func note(_ key: String, _ value: [UInt8], _ cas: CAS) {
            if let known = model[key], known.cas >= cas { complaints.append("\(key): lower CAS") }
            model[key] = Known(value: value, cas: cas)
        }

        private func find(_ key: String) async -> [UInt8]? {
            do throws(ClientError) {
                return try await client.get(key).value
            } catch {
                return error.code == .notFound ? nil : Array("\(error)".utf8)
            }
        }

        private mutating func expect(
            _ code: ClientError.Code?,
            _ begin: (Client, @escaping Client.Handler<MutationResult>) -> Void,
            then: (inout Caller, CAS) -> Void
        ) async {
            do throws(ClientError) {
                let cas = try await client.perform(begin).cas
                if let code { complaints.append("expected \(code)") }
                then(&self, cas)
            } catch {
                if error.code != code { complaints.append("\(error)") }
            }
        }
    }

    @Test func mixedOperationsOfEightCallersAgreeWithTheModel() async throws {
        let node = try RealNode()
        let client = try await node.client()
        let callers = await withTaskGroup(of: Caller.self) { group in
            for name in 0..<8 {
                group.addTask {
                    var caller = Caller(
                        client: client,
                        name: name,
                        random: SeededRandom(seed: UInt64(name) + 4_711)
                    )
                    await caller.run(1_250)
                    return caller
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(callers.flatMap(\.complaints) == [])
        let increments = callers.reduce(0) { $0 + $1.increments }
        #expect(try await client.get("shared").text == "\(increments)")
        await client.close()
        await node.remove()
    }
}
