import Bytes
import Syncing
import Testing

@Suite struct SubscriptionTests {
    private func topics(_ names: String) -> Set<Subscriptions.Topic> {
        Set(channels(names).map { .channel($0) })
    }

    @Test func changeMakesItsSubscribersReadyOnce() {
        var subscriptions = Subscriptions()
        let first = subscriptions.add()
        let second = subscriptions.add()
        subscriptions.listen(first, to: topics("a b"))
        subscriptions.listen(second, to: topics("c"))
        subscriptions.notify(topics("a b"))
        subscriptions.notify(topics("a"))
        #expect(subscriptions.hasReadySessions)
        #expect(subscriptions.removeReady() == [first])
        #expect(subscriptions.removeReady() == [])
        subscriptions.notify(topics("b c"))
        #expect(Set(subscriptions.removeReady()) == [first, second])
    }

    @Test func listenerOfEverythingIsReadyAfterAnyChange() {
        var subscriptions = Subscriptions()
        let session = subscriptions.add()
        subscriptions.listen(session, to: topics("*"))
        subscriptions.notify([])
        #expect(subscriptions.removeReady() == [session])
    }

    @Test func changeOfAPrincipalConcernsItsListeners() {
        var subscriptions = Subscriptions()
        let session = subscriptions.add()
        let jane = Subscriptions.Topic.principal(PrincipalKey(.user, "jane"))
        subscriptions.listen(session, to: [jane])
        subscriptions.notify([.principal(PrincipalKey(.role, "jane"))])
        #expect(!subscriptions.hasReadySessions)
        subscriptions.notify([jane])
        #expect(subscriptions.removeReady() == [session])
    }

    @Test func endedSessionIsNeverReady() {
        var subscriptions = Subscriptions()
        let session = subscriptions.add()
        subscriptions.listen(session, to: topics("a"))
        subscriptions.notify(topics("a"))
        subscriptions.remove(session)
        #expect(!subscriptions.hasReadySessions)
        subscriptions.notify(topics("a"))
        #expect(subscriptions.removeReady() == [])
        #expect(subscriptions.topicCount == 0)
    }

    @Test func randomSubscriptionsAgreeWithSets() {
        var random = SeededRandom(seed: 11)
        var subscriptions = Subscriptions()
        var expected: [Subscriptions.SessionID: Set<Subscriptions.Topic>] = [:]
        var ready: Set<Subscriptions.SessionID> = []
        let names = ["a", "b", "c", "d", "e", "f"]
        for step in 1...4_000 {
            let some = names.filter { _ in random.next() % 3 == 0 }.joined(separator: " ")
            let sessions = expected.keys.sorted { $0.slot < $1.slot }
            let chosen =
                sessions.isEmpty ? nil : sessions[Int(random.next() % UInt64(sessions.count))]
            switch random.next() % 8 {
            case 0: expected[subscriptions.add()] = []
            case 1, 2:
                guard let chosen else { continue }
                subscriptions.listen(chosen, to: topics(some))
                expected[chosen] = topics(some)
            case 3:
                guard let chosen, sessions.count > 4 else { continue }
                subscriptions.remove(chosen)
                expected[chosen] = nil
                ready.remove(chosen)
            case 4:
                let found = subscriptions.removeReady()
                #expect(Set(found) == ready && found.count == ready.count, "step \(step)")
                ready = []
            default:
                subscriptions.notify(topics(some))
                ready.formUnion(expected.filter { !$0.value.isDisjoint(with: topics(some)) }.keys)
            }
            let topicCount = expected.values.reduce(into: Set()) { $0.formUnion($1) }.count
            #expect(subscriptions.topicCount == topicCount, "step \(step)")
        }
    }
}
