internal import DataService
internal import Engine
internal import Seams
internal import Server
internal import Vocabulary
internal import Wire

/// The answers to a consumer's requests, and the messages of its streams.
extension SimulatedConsumer {
    private func place(_ number: Int) -> ConsumerPlace? { places.first { $0.number == number } }

    // MARK: Answers

    func answered(_ question: ConsumerLink.Question, _ frame: Frame, from link: ConsumerLink) {
        switch question {
        case .stream(let number, let request):
            answeredStream(number, request, frame: frame, link: link)
        case .closedStream(let number): answeredClose(number, frame, link: link)
        case .failoverLog(let number, let request, let seqno):
            answeredLog(number, request, seqno: seqno, frame: frame, link: link)
        case .open, .control, .map: break
        }
    }

    private func answeredStream(
        _ number: Int,
        _ request: DCPStreamRequest,
        frame: Frame,
        link: ConsumerLink
    ) {
        guard let place = place(number), case .requested(let asked, _, let opaque) = place.stage,
            asked === link, opaque == frame.opaque
        else { return }
        switch frame.header.status {
        case .success: accepted(place, request, frame: frame, link: link)
        case .rollback: announcedRollback(place, request, frame: frame, link: link)
        case .notMyVBucket:
            sees(frame.value, from: link)
            place.rest(until: now + pause)
        case .temporaryFailure, .notInitialized, .busy, .noBucket: place.rest(until: now + pause)
        default:
            reportFlaw(
                "\(link.address) answers \(request) of \(place.id) with status "
                    + "\(frame.header.statusNumber)"
            )
            place.rest(until: now + SimulatedConsumer.second)
        }
    }

    private func accepted(
        _ place: ConsumerPlace,
        _ request: DCPStreamRequest,
        frame: Frame,
        link: ConsumerLink
    ) {
        guard let log = DCPDecoder.failoverLog(frame.value) else {
            reportFlaw("\(link.address) sends a malformed failover log of \(place.id)")
            return place.rest(until: now + SimulatedConsumer.second)
        }
        if let flaw = ConsumerRules.flaw(accepting: request, log) {
            reportFlaw("\(link.address) sends of \(place.id) \(flaw)")
        }
        place.view.accept(log)
        place.stage = .streaming(link, opaque: frame.opaque)
        life.count("consumerStreams")
        if request.start > .zero { life.count("consumerResumes") }
        if let last = place.lastAddress, last != link.address { life.count("consumerMoves") }
        place.lastAddress = link.address
    }

    /// Requests the failover log, which the answer does not contain, as clients do.
    private func announcedRollback(
        _ place: ConsumerPlace,
        _ request: DCPStreamRequest,
        frame: Frame,
        link: ConsumerLink
    ) {
        guard let seqno = DCPDecoder.rollback(frame.value) else {
            reportFlaw("\(link.address) announces a malformed rollback of \(place.id)")
            return place.rest(until: now + SimulatedConsumer.second)
        }
        life.count("consumerRollbacks")
        note("is to roll \(place.id) back from \(request.start.value) to \(seqno.value)")
        if verifier.isLossless {
            reportFlaw(
                "\(link.address) announces a rollback of \(place.id) from "
                    + "\(request.start.value) to \(seqno.value), and nothing was lost"
            )
        }
        place.view.rollBack(to: seqno)
        place.stage = .judging(link)
        let question = ConsumerLink.Question.failoverLog(
            place.number,
            request,
            rolledBackTo: seqno
        )
        link.send(question, of: place.id) { encoder, output in
            encoder.appendGetFailoverLog(to: output)
        }
    }

    private func answeredLog(
        _ number: Int,
        _ request: DCPStreamRequest,
        seqno: Seqno,
        frame: Frame,
        link: ConsumerLink
    ) {
        guard let place = place(number), case .judging(let asked) = place.stage, asked === link
        else { return }
        place.rest(until: now)
        guard frame.header.status == .success else { return }
        guard let log = DCPDecoder.failoverLog(frame.value) else {
            return reportFlaw("\(link.address) sends a malformed failover log of \(place.id)")
        }
        let flaw = ConsumerRules.flaw(
            rollingBack: request,
            to: seqno,
            log,
            purged: purged(place, link)
        )
        if let flaw { reportFlaw("\(link.address) announces for \(place.id) \(flaw)") }
    }

    private func answeredClose(_ number: Int, _ frame: Frame, link: ConsumerLink) {
        guard let place = place(number), case .closing(let asked, _) = place.stage, asked === link
        else { return }
        // A stream that ended before has no end that follows.
        let isSuccess = frame.header.status == .success
        guard !isSuccess || !habits.asksForEnds else { return }
        reopenLater(place)
    }

    /// Requests a closed stream again: at once, or when memory has none of the changes.
    private func reopenLater(_ place: ConsumerPlace) {
        let isLong = !life.isCalm && life.pick(2) == 0
        place.rest(until: now + (isLong ? life.draw(10 * SimulatedConsumer.second) : pause))
    }

    // MARK: Messages of streams

    func receive(_ frame: Frame, from link: ConsumerLink) {
        guard let message = DCPDecoder.message(in: frame) else {
            return reportFlaw(
                "\(link.address) sends a malformed message: \(frame.header.opcodeByte)"
            )
        }
        guard let place = place(Int(frame.vBucket.number)), let opaque = opaque(of: place, link),
            opaque == frame.opaque
        else {
            return reportFlaw(
                "\(link.address) sends \(frame.vBucket) without a stream: \(frame.header.opcodeByte)"
            )
        }
        if case .streamEnd(let reason) = message { return ended(place, reason, link: link) }
        if case .snapshotMarker(let marker) = message { check(marker, place, link: link) }
        if case .change(let change) = message {
            verifier.sees(
                change,
                of: bucket,
                by: AttributeLedger.Source(
                    "\(habits.name) of \(link.address)",
                    log: place.view.log
                ),
                link.form,
                hasValues: habits.hasValues
            )
        }
        place.view.receive(message, link.form)
        if let flaw = place.view.flaw {
            reportFlaw("\(link.address) sends of \(place.id) \(flaw)")
            startAnew(place)
            link.close()
        }
    }

    /// A snapshot ends at a visible change, else a client that stores whole snapshots waits for its
    /// end.
    private func check(_ marker: DCPSnapshotMarker, _ place: ConsumerPlace, link: ConsumerLink) {
        let uuid = place.view.uuid
        let visible: Seqno? = copy(place, link)?.withCore { core in
            core.state == .active && core.isLoaded && core.uuid == uuid ? core.highVisible : nil
        }
        guard let visible, marker.end > visible else { return }
        reportFlaw(
            "\(link.address) sends of \(place.id) a snapshot to \(marker.end.value), and the last "
                + "visible change is \(visible.value)"
        )
    }

    /// The copy of a connection's node.
    private func copy(_ place: ConsumerPlace, _ link: ConsumerLink) -> VBucket? {
        let node = cluster.nodes.first { $0.address == link.address.host }
        return node?.node?.data.bucket(named: bucket)?.engine.all[place.number]
    }

    /// The seqno up to which the node of a connection may have purged tombstones.
    private func purged(_ place: ConsumerPlace, _ link: ConsumerLink) -> Seqno {
        copy(place, link)?.withCore { $0.purgeSeqno } ?? .zero
    }

    private func opaque(of place: ConsumerPlace, _ link: ConsumerLink) -> UInt32? {
        switch place.stage {
        case .streaming(let asked, let opaque), .closing(let asked, let opaque):
            asked === link ? opaque : nil
        case .idle, .requested, .judging: nil
        }
    }

    private func ended(_ place: ConsumerPlace, _ number: UInt32, link: ConsumerLink) {
        let reason = DCPStreamEnd(rawValue: number)
        life.count("consumerEnds")
        switch reason {
        case .finished, .stateChanged, .slow, .backfillFailed: place.rest(until: now + pause)
        case .closed:
            guard case .closing = place.stage, habits.asksForEnds else {
                reportFlaw(
                    "\(link.address) ends \(place.id) as closed, and the client did not close it"
                )
                return place.rest(until: now + pause)
            }
            reopenLater(place)
        case .rollback:
            // Tombstones behind its position were purged.
            place.view.rollBack(to: .zero)
            place.rest(until: now + pause)
        default:
            reportFlaw("\(link.address) ends \(place.id) with reason \(number)")
            place.rest(until: now + pause)
        }
    }

    /// Discards everything, so that one flaw is reported once.
    func startAnew(_ place: ConsumerPlace) {
        place.view = ConsumerView(hasValues: habits.hasValues)
    }
}
