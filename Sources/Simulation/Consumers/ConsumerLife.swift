internal import Bytes
internal import Vocabulary
internal import Wire

/// A consumer's random numbers, clock and counts.
struct ConsumerLife {
    private var dice: SeededRandom
    private(set) var tally = Tally()
    /// The consumer follows, and does nothing else.
    var isCalm = false
    var mapAskedAt: UInt64 = 0
    /// When it does something else next.
    var actsAt: UInt64 = 0
    /// When a slow client reads again; nil if it is not slow.
    var slowUntil: UInt64?

    init(_ dice: SeededRandom) {
        self.dice = dice
    }

    mutating func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    mutating func draw(_ below: UInt64) -> UInt64 { dice.next() % below }

    mutating func count(_ kind: String, _ number: Int = 1) { tally[.check, kind] += number }
}

/// The faults of a consumer: restarts, disconnections, closed streams, absences and slow reading.
extension SimulatedConsumer {
    /// Stops everything but following.
    func calm() {
        life.isCalm = true
        hurry()
        for place in places { place.retryAt = min(place.retryAt, now) }
    }

    func act() {
        if let until = life.slowUntil, until <= now { hurry() }
        guard !life.isCalm, life.actsAt <= now else { return }
        let isFirst = life.actsAt == 0
        life.actsAt = now + SimulatedConsumer.second + life.draw(4 * SimulatedConsumer.second)
        guard !isFirst else { return }
        switch life.pick(8) {
        case 0: restart()
        case 1, 2: disconnect()
        case 3, 4: closeStreams()
        default: slowDown()
        }
    }

    /// Ends the process and starts it again, half of the times with an older stored position.
    private func restart() {
        life.count("consumerRestarts")
        note("restarts")
        for link in openLinks { link.close() }
        let isBehind = life.pick(2) == 0
        let away = life.pick(3) == 0 ? life.draw(8 * SimulatedConsumer.second) : pause
        for place in places {
            if isBehind {
                let lost = UInt64(life.pick(30))
                let position = place.view.position.value
                place.view.rollBack(to: Seqno(position - min(position, lost)))
            }
            place.rest(until: now + away)
        }
    }

    private func disconnect() {
        let links = openLinks
        guard !links.isEmpty else { return }
        links[life.pick(links.count)].close()
    }

    /// Closes some streams, and requests them again at once or after some seconds.
    private func closeStreams() {
        for place in places where life.pick(4) == 0 {
            guard case .streaming(let link, let opaque) = place.stage, link.isReady else {
                continue
            }
            place.stage = .closing(link, opaque: opaque)
            link.send(.closedStream(place.number), of: place.id) { encoder, output in
                encoder.appendCloseStream(to: output)
            }
        }
    }

    private func slowDown() {
        let links = openLinks.filter(\.isReady)
        guard !links.isEmpty, life.slowUntil == nil else { return }
        life.count("consumerSlow")
        let isPaused = life.pick(3) == 0
        links[life.pick(links.count)].slowDown(isPaused: isPaused)
        let length = life.draw((isPaused ? 3 : 8) * SimulatedConsumer.second)
        life.slowUntil = now + SimulatedConsumer.second / 2 + length
    }

    private func hurry() {
        life.slowUntil = nil
        for link in openLinks { link.hurry() }
    }
}
