import Bytes
import Credentials
import Testing

/// The order of password checks.
@Suite struct PasswordQueueTests {
    private func login(_ user: String, _ password: String = "p") -> PasswordLogin {
        PasswordLogin(user: user, password: bytes(password))
    }

    private func enter(
        _ queue: inout PasswordQueue<String>,
        _ user: String,
        _ password: String = "p",
        isKnown: Bool = false
    ) -> PasswordQueue<String>.Entry {
        let login = login(user, password)
        return queue.enter(login, isKnown: isKnown, work: user, retry: "again \(user)")
    }

    /// What the lane does until it is idle.
    private func rest(_ queue: inout PasswordQueue<String>) -> [[String]] {
        var steps: [[String]] = []
        while let step = queue.next() { steps.append(step.works + [step.retry].compactMap { $0 }) }
        return steps
    }

    @Test func knownLoginsAreCheckedFirstAndEqualLoginsTogether() {
        var queue = PasswordQueue<String>()
        #expect(enter(&queue, "a") == .starts)
        #expect(enter(&queue, "b") == .waits)
        #expect(enter(&queue, "a") == .waits)
        #expect(enter(&queue, "a", "another") == .waits)
        #expect(enter(&queue, "k", isKnown: true) == .waits)
        #expect(enter(&queue, "b", isKnown: true) == .waits)
        #expect(queue.waitingCount == 4)
        #expect(rest(&queue) == [["k"], ["a", "a"], ["b", "b"], ["a"]])
        // The lane is idle again.
        #expect(enter(&queue, "c") == .starts)
    }

    @Test func callersOfFullQueueRetryOnceThereIsRoomKnownLoginsFirst() {
        var queue = PasswordQueue<String>(waitingMax: 2)
        #expect(enter(&queue, "a") == .starts)
        #expect(enter(&queue, "b") == .waits)
        #expect(enter(&queue, "c") == .isFull)
        #expect(enter(&queue, "k", isKnown: true) == .isFull)
        // An equal one needs no room.
        #expect(enter(&queue, "b") == .waits)
        #expect(queue.waitingCount == 2)
        let first = queue.next()
        #expect(first?.works == ["a"] && first?.retry == "again k")
        #expect(enter(&queue, "k", isKnown: true) == .waits)
        let second = queue.next()
        #expect(second?.works == ["k"] && second?.retry == "again c")
        #expect(enter(&queue, "c") == .waits)
        #expect(rest(&queue) == [["b", "b"], ["c"]])
    }

    @Test func callerThatDoesNotRetryDoesNotBlockLaterCallers() {
        var queue = PasswordQueue<String>(waitingMax: 1)
        for user in ["a", "b", "c", "d"] { _ = enter(&queue, user) }
        #expect(rest(&queue) == [["a", "again b"], ["again c"], ["again d"]])
        #expect(enter(&queue, "d") == .starts)
    }

    @Test func everyCallerIsServedOnceUnderRandomLoad() {
        var random = SeededRandom(seed: 5)
        var queue = PasswordQueue<String>(waitingMax: 4)
        var open: Set<String> = []
        var served = 0
        func tryEntering(_ name: String) {
            let entry = queue.enter(
                login(name),
                isKnown: name.hasSuffix("1"),
                work: "work " + name,
                retry: "retry " + name
            )
            #expect(queue.waitingCount <= 4)
            _ = entry
        }
        for number in 0..<2_000 {
            open.insert("\(number)")
            tryEntering("\(number)")
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                guard let step = queue.next() else { break }
                for work in step.works {
                    #expect(open.remove(String(work.dropFirst(5))) != nil)
                    served += 1
                }
                if let retry = step.retry { tryEntering(String(retry.dropFirst(6))) }
            }
        }
        while let step = queue.next() {
            for work in step.works where open.remove(String(work.dropFirst(5))) != nil {
                served += 1
            }
            if let retry = step.retry { tryEntering(String(retry.dropFirst(6))) }
        }
        #expect(open.isEmpty && served == 2_000)
    }
}
