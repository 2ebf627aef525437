internal import Bytes
internal import DivanClient
internal import SimulatedPlatform
internal import Vocabulary

/// Registers: documents that many clients write concurrently, checked for linearizability.
///
/// Of three registers one, two or all are always written durably. Every fourth is a counter, which
/// shows a write that was applied twice.
extension WorkloadClient {
    func actOnRegister(_ client: Client) {
        let document = register(Int(random.next() % UInt64(workload.registers)))
        let options = document.durability.map(WriteOptions.durable) ?? .plain
        if document.isCounter { return count(document, options, by: client) }
        switch random.next() % 20 {
        case 0...7: get(document, isOwner: false, client)
        case 8...11: set(document, newValue(), options: options, by: client)
        case 12, 13: delete(document, isOwner: false, options: options, by: client)
        case 14, 15: add(document, options, by: client)
        case 16, 17: replace(document, options, by: client)
        default: compareAndSet(document, options, by: client)
        }
    }

    private func register(_ number: Int) -> Verifier.Document {
        Verifier.Document(
            bucket: bucket.name,
            key: "register\(number)",
            isCounter: number % 4 == 3,
            durability: level(number)
        )
    }

    /// Reads all registers at the end, since otherwise the loss of a last write would not be found.
    func readRegisters(_ done: @escaping @Sendable () -> Void) {
        guard let client, hasRegisters else { return done() }
        let left = Guarded(workload.registers)
        let sentAt = world.now
        for number in 0..<workload.registers {
            let document = register(number)
            client.get(Array(document.key.utf8)) { [self] result in
                switch result {
                case .success(let there):
                    found(there.value, document, isOwner: false, sentAt: sentAt)
                case .failure(let error) where error.code == .notFound:
                    found(nil, document, isOwner: false, sentAt: sentAt)
                case .failure: break
                }
                let count = left.withLock { left in
                    left -= 1
                    return left
                }
                if count == 0 { done() }
            }
        }
    }

    /// The durability level of a register, the same for all its writes.
    private func level(_ register: Int) -> DurabilityLevel? {
        guard register % 3 < workload.durableOfThree else { return nil }
        guard bucket.type == .persistent else { return .majority }
        switch workload.durableOfThree == 3 ? register % 3 : register / 3 % 3 {
        case 0: return .majority
        case 1: return .majorityAndPersistOnActive
        default: return .persistToMajority
        }
    }

    private func add(_ document: Verifier.Document, _ options: WriteOptions, by client: Client) {
        let value = newValue()
        verifier.sends(value, to: document)
        let sentAt = world.now
        client.add(Array(document.key.utf8), value, options: options) { [self] result in
            conclude(
                .add(value),
                document,
                value: value,
                sentAt: sentAt,
                expected: nil,
                result: result
            )
            ended("add", isDone: isAnswer(result))
        }
    }

    private func replace(_ document: Verifier.Document, _ options: WriteOptions, by client: Client)
    {
        let value = newValue()
        verifier.sends(value, to: document)
        let sentAt = world.now
        client.replace(Array(document.key.utf8), value, options: options) { [self] result in
            conclude(
                .replace(value),
                document,
                value: value,
                sentAt: sentAt,
                expected: nil,
                result: result
            )
            ended("replace", isDone: isAnswer(result))
        }
    }

    /// Replaces the value that this client last read, if it is still current.
    private func compareAndSet(
        _ document: Verifier.Document,
        _ options: WriteOptions,
        by client: Client
    ) {
        guard let (expected, cas) = known[document] else {
            return get(document, isOwner: false, client)
        }
        let value = newValue()
        verifier.sends(value, to: document)
        let sentAt = world.now
        var options = options
        options.cas = cas
        client.replace(Array(document.key.utf8), value, options: options) { [self] result in
            known[document] = nil
            let action = RegisterOperation.Action.compareAndSet(expected: expected, new: value)
            conclude(
                action,
                document,
                value: value,
                sentAt: sentAt,
                expected: expected,
                result: result
            )
            ended("compareAndSet", isDone: isAnswer(result))
        }
    }

    private func count(_ document: Verifier.Document, _ options: WriteOptions, by client: Client) {
        let delta = random.next() % 4
        guard delta != 0 else { return get(document, isOwner: false, client) }
        let initial = random.next() % 1_000
        let sentAt = world.now
        let key = Array(document.key.utf8)
        client.increment(key, by: Int64(delta), initial: initial, options) { [self] result in
            let value = (try? result.get()).map { Array(String($0.value).utf8) }
            let made = (try? result.get())?.value
            let action = RegisterOperation.Action.increment(
                by: delta,
                initial: initial,
                result: made
            )
            end(action, document, value: value, sentAt: sentAt, result: result.map(\.token))
            ended("increment", isDone: value != nil)
        }
    }

    // MARK: Responses that observe the state

    private func isAnswer(_ result: Result<MutationResult, ClientError>) -> Bool {
        switch result {
        case .success: true
        case .failure(let error): error.code == .exists || error.code == .notFound
        }
    }

    private func conclude(
        _ action: RegisterOperation.Action,
        _ document: Verifier.Document,
        value: [UInt8],
        sentAt: UInt64,
        expected: [UInt8]?,
        result: Result<MutationResult, ClientError>
    ) {
        if case .failure(let error) = result {
            switch error.code {
            case .exists:
                did(.found(except: expected), document, called: sentAt, returned: world.now)
            case .notFound: did(.read(nil), document, called: sentAt, returned: world.now)
            default: break
            }
        }
        end(action, document, value: value, sentAt: sentAt, result: result.map(\.token))
    }
}
