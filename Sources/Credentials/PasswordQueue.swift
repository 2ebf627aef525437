/// The order in which passwords are checked.
///
/// A check takes a processor for tens of milliseconds on purpose, so one lane runs them one by one.
///
/// - Logins that are known come first: guesses, however many, do not delay them.
/// - Equal names and passwords wait as one.
/// - The number of waiting passwords is bounded. A caller beyond it keeps its request until
///   it may retry.
package struct PasswordQueue<Work> {
    package enum Entry: Equatable, Sendable {
        /// The lane is idle: call `next` on it.
        case starts
        case waits
        /// There is no room: `retry` is returned by a later `next`.
        case isFull
    }

    /// The next action of the lane.
    package struct Step {
        /// The work of callers with an equal name and password; empty if there is only a retry.
        package let works: [Work]
        /// A caller for which there is room now.
        package let retry: Work?
    }

    fileprivate struct Place {
        let login: PasswordLogin
        var works: [Work]
    }

    /// The first-come-first-served lines of known logins and of the others.
    fileprivate struct Line {
        var places: [Place] = []
        var retries: [Work] = []

        mutating func join(_ login: PasswordLogin, _ work: Work) -> Bool {
            guard let place = places.firstIndex(where: { $0.login == login }) else { return false }
            places[place].works.append(work)
            return true
        }
    }

    private let waitingMax: Int
    private var known = Line()
    private var others = Line()
    private var isRunning = false

    package init(waitingMax: Int = 64) {
        self.waitingMax = waitingMax
    }

    package var waitingCount: Int { known.places.count + others.places.count }

    /// Adds a check.
    ///
    /// - Parameters:
    ///   - login: The name and the password.
    ///   - isKnown: Whether the name logged in from the same place before.
    ///   - work: Checks the login; run on the lane.
    ///   - retry: Enters again; returned once there is room.
    /// - Returns: What became of the check.
    package mutating func enter(
        _ login: PasswordLogin,
        isKnown: Bool,
        work: Work,
        retry: Work
    ) -> Entry {
        if known.join(login, work) || others.join(login, work) { return .waits }
        let isFull = waitingCount >= waitingMax
        if isKnown {
            if isFull { known.retries.append(retry) } else { known.add(login, work) }
        } else {
            if isFull { others.retries.append(retry) } else { others.add(login, work) }
        }
        guard !isFull else { return .isFull }
        defer { isRunning = true }
        return isRunning ? .waits : .starts
    }

    /// The next check, on the lane; nil if there is none, and the lane is idle.
    package mutating func next() -> Step? {
        let place = known.removeFirst() ?? others.removeFirst()
        let retry = known.removeRetry() ?? others.removeRetry()
        // A caller that could have retried may be gone: the next one must not wait for it.
        guard place != nil || retry != nil else {
            isRunning = false
            return nil
        }
        return Step(works: place?.works ?? [], retry: retry)
    }
}

extension PasswordQueue.Line {
    fileprivate mutating func add(_ login: PasswordLogin, _ work: Work) {
        places.append(PasswordQueue.Place(login: login, works: [work]))
    }

    fileprivate mutating func removeFirst() -> PasswordQueue.Place? {
        places.isEmpty ? nil : places.removeFirst()
    }

    fileprivate mutating func removeRetry() -> Work? {
        retries.isEmpty ? nil : retries.removeFirst()
    }
}
