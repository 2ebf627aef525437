import Bytes
import DataService
import TestWorld
import Vocabulary

/// A streaming client and a writing client of one bucket, driven by the fuzzer's bytes.
final class ChangesSession {
    /// What a step does; frequent kinds are in `steps` several times.
    private enum Step {
        case open, control, requestStream, closeStream, acknowledge, answerNoop, connectTap
        case ask, malformed, write, writeDurably, delete, disturb, pass, settle
    }

    private static let steps: [Step] = [
        .requestStream, .write, .delete, .acknowledge, .open, .control, .closeStream, .disturb,
        .requestStream, .write, .writeDurably, .answerNoop, .connectTap, .ask, .malformed, .pass,
        .requestStream, .write, .write, .acknowledge, .control, .settle, .writeDurably, .disturb,
    ]
    private static let controls: [(name: String, values: [String])] = [
        ("enable_noop", ["true", "false", "perhaps"]),
        ("set_noop_interval", ["1", "180", "0"]),
        ("connection_buffer_size", ["1", "100", "10000", "0", "x"]),
        ("enable_expiry_opcode", ["true", "false"]),
        ("send_stream_end_on_client_close_stream", ["true", "false"]),
        ("enable_out_of_order_snapshots", ["true"]),
        ("max_marker_version", ["2.2"]),
        ("enable_sync_writes", ["true", "false"]),
        ("no_such_control", [""]),
    ]
    /// Opcodes of requests without a body that need no state of the session.
    private static let questions: [(opcode: UInt8, key: String)] = [
        (0x48, ""), (0x54, ""), (0x96, ""), (0x10, "dcp"), (0x10, "dcpagg :"), (0x0a, ""),
        (0x00, "a"), (0x51, ""), (0x89, "memory"), (0x89, "disk"),
    ]

    private let service: FuzzedService
    private let bucketName: String
    private let isSplit: Bool
    private let consumer: Client
    private let writer: Client
    private var events: SeededRandom
    private var checker = ChangesChecker()
    /// The requests of the consumer since its login.
    private var asked: [UInt8] = []
    private var opaque: UInt32 = 0
    private var durable = DurableValues()

    init(_ service: FuzzedService, mode: UInt8, events: UInt8) {
        self.service = service
        self.events = SeededRandom(seed: UInt64(events))
        bucketName = mode & 1 == 0 ? "memory" : "disk"
        isSplit = mode & 0x10 != 0
        consumer = Client(service.world)
        writer = Client(service.world)
        service.logIn(consumer, bucketName, features: mode & 0x04 != 0 ? [0x0e] : [])
        service.logIn(writer, bucketName, features: [0x11])
        if mode & 0x02 == 0 { open(flags: 1, name: "fuzz") }
    }

    var isClosed: Bool { consumer.isClosed }

    func step(_ source: inout ByteSource) {
        switch source.choice(ChangesSession.steps) {
        case .open:
            let flags = source.choice([1, 0x29, 0x41, 0x09, 0, 2, 5, 0x8001])
            open(flags: UInt32(flags), name: source.choice(["fuzz", "other", ""]))
        case .control:
            let control = source.choice(ChangesSession.controls)
            let value = Array(source.choice(control.values).utf8)
            ask(0x5e, key: Array(control.name.utf8), value: value)
        case .requestStream: requestStream(&source)
        case .closeStream: ask(0x52, vBucket: vBucket(&source))
        case .acknowledge: acknowledge(source.byte())
        case .answerNoop: answer(0x5c, checker.lastNoop, magic: source.choice([0x81, 0x80]))
        case .connectTap: connectTap(&source)
        case .ask:
            let question = source.choice(ChangesSession.questions)
            ask(question.opcode, key: Array(question.key.utf8), vBucket: vBucket(&source))
        case .malformed: askMalformed(&source)
        case .write: write(&source)
        case .writeDurably: writeDurably(&source)
        case .delete:
            let key = key(&source)
            send(frame(0x04, key: key, vBucket: VBucketID(ofKey: key, count: 64).number))
        case .disturb: service.disturb(bucketName, consumer, &events)
        case .pass: service.world.pass(milliseconds: UInt64(source.byte()) * 10)
        case .settle: settle()
        }
        collect()
    }

    // MARK: The streaming client

    private func ask(
        _ opcode: UInt8,
        key: [UInt8] = [],
        value: [UInt8] = [],
        extras: [UInt8] = [],
        vBucket: UInt16 = 0
    ) {
        opaque += 1
        let request = frame(
            opcode,
            key: key,
            value: value,
            extras: extras,
            vBucket: vBucket,
            opaque: opaque
        )
        checker.noteRequest(opcode, opaque: opaque, vBucket: vBucket, extras: extras)
        sendAsConsumer(request)
    }

    private func sendAsConsumer(_ request: [UInt8]) {
        asked += request
        let first = isSplit ? request.count / 2 : request.count
        consumer.send(Array(request.prefix(first)))
        consumer.send(Array(request.dropFirst(first)))
    }

    private func open(flags: UInt32, name: String) {
        ask(0x50, key: Array(name.utf8), extras: big(UInt32(0)) + big(flags))
    }

    private func requestStream(_ source: inout ByteSource) {
        let number = vBucket(&source)
        let choice = source.byte()
        let flags = source.choice([0, 0, 0, 0x04, 0x10, 0x20, 0x40, 0x80, 0x02, 0x8000])
        var (uuid, start): (UInt64, UInt64) = (0, 0)
        if choice & 1 != 0 { (uuid, start) = checker.known[number] ?? (1, 1) }
        if choice & 2 != 0 { start += UInt64(source.byte() & 7) }
        var snapshot = (start, start)
        if choice & 4 != 0 {
            let (before, after) = (UInt64(source.byte() & 7), UInt64(source.byte() & 7))
            snapshot = (start - min(start, before), start + after)
        }
        let end = choice & 8 != 0 ? start + UInt64(source.byte() & 7) : UInt64.max
        var extras = big(UInt32(flags)) + big(UInt32(0)) + big(start) + big(end) + big(uuid)
        extras += big(snapshot.0) + big(snapshot.1)
        if choice & 0xf0 == 0xf0 { extras = Array(extras.prefix(8)) + source.bytes(40) }
        let filter = choice & 0xf0 == 0xe0 ? source.bytes(Int(source.byte() & 31)) : []
        ask(0x53, value: filter, extras: extras, vBucket: number)
    }

    private func acknowledge(_ choice: UInt8) {
        // Zero for all that was received; more than was sent counts as all of it.
        let bytes = choice == 0 ? UInt32(clamping: checker.unacknowledged) : UInt32(choice) * 50
        checker.unacknowledged = 0
        ask(0x5d, extras: big(choice == 0xff ? UInt32.max : bytes))
        answer(0x41, checker.lastMark, magic: 0x81)
    }

    /// Answers a message of the server, if there was one.
    private func answer(_ opcode: UInt8, _ opaque: UInt32?, magic: UInt8) {
        guard let opaque else { return }
        var answer = frame(opcode, opaque: opaque)
        answer[0] = magic
        sendAsConsumer(answer)
    }

    private func connectTap(_ source: inout ByteSource) {
        let flags = source.choice([0, 1, 2, 3, 4, 0x10, 0x11, 0x20, 0x31, 0x08, 0x80, 0x06])
        var value: [UInt8] = []
        if flags & 1 != 0 { value += big(source.byte() & 1 == 0 ? UInt64.max : 0) }
        if flags & 4 != 0 { value += big(UInt16(1)) + big(vBucket(&source)) }
        ask(0x40, value: value, extras: big(UInt32(flags)))
    }

    /// Any opcode of the protocols with any lengths.
    private func askMalformed(_ source: inout ByteSource) {
        let opcode = 0x40 + source.byte() % 0x26
        let extras = source.bytes(Int(source.byte()) % 52)
        let key = source.bytes(Int(source.byte()) % 8)
        ask(
            opcode,
            key: key,
            value: source.bytes(Int(source.byte()) % 20),
            extras: extras,
            vBucket: source.byte() & 1 == 0 ? 0 : vBucket(&source)
        )
    }

    // MARK: The writing client

    private func key(_ source: inout ByteSource) -> [UInt8] {
        Array(source.choice(RequestMaker.keys).utf8)
    }

    /// Mostly a vBucket with documents.
    private func vBucket(_ source: inout ByteSource) -> UInt16 {
        let choice = source.byte()
        guard choice < 240 else { return UInt16(choice) * 16 }
        let key = Array(RequestMaker.keys[Int(choice) % RequestMaker.keys.count].utf8)
        return VBucketID(ofKey: key, count: 64).number
    }

    private func write(_ source: inout ByteSource) {
        let key = key(&source)
        let choice = source.byte()
        // Large values now and then, so that a memory quota of 2 MiB is reached.
        let count = choice < 250 ? Int(choice) % 40 : (Int(choice) - 249) * 20_000
        let expiry: UInt32 = choice & 7 == 7 ? 1 : 0
        send(
            frame(
                0x01,
                key: key,
                value: [UInt8](repeating: choice, count: count),
                extras: big(UInt32(0)) + big(expiry),
                vBucket: VBucketID(ofKey: key, count: 64).number
            )
        )
    }

    private func writeDurably(_ source: inout ByteSource) {
        let key = key(&source)
        let level = 1 + source.byte() % 3
        let (opaque, value) = durable.next()
        send(
            frame(
                0x01,
                key: key,
                value: value,
                extras: [UInt8](repeating: 0, count: 8),
                vBucket: VBucketID(ofKey: key, count: 64).number,
                opaque: opaque,
                framing: [0x11, level]
            )
        )
    }

    private func send(_ request: [UInt8]) { writer.send(request) }

    // MARK: What was received

    private func settle() {
        writer.settle()
        consumer.settle()
    }

    /// Checks what both clients received.
    private func collect() {
        let messages = consumer.messages()
        // A commit is answered before or with its change, but the lanes may still have the answer.
        writer.pump()
        durable.noteAnswers(writer.messages())
        for message in messages {
            checker.note(message)
            if message.opcode == 0x57 { durable.check(message.value) }
        }
    }

    /// Reads every stream to its end, and checks what holds then.
    func finish() {
        service.finishWork()
        readAll()
        // A connection notices within a second that its bucket was flushed.
        service.world.pass(milliseconds: 1_100)
        readAll()
        AskedRequests(asked).check(checker.answers, isClosed: consumer.isClosed)
        if !consumer.isClosed, let bucket = service.world.service.bucket(named: bucketName) {
            checker.checkEnd { bucket.highVisible(VBucketID($0))?.value }
        }
        service.check(consumer)
        service.check(writer)
        service.checkAtRest()
    }
}

extension ChangesSession {
    /// Reads and acknowledges until nothing more is sent.
    private func readAll() {
        for _ in 0..<2_000 {
            let before = checker.messageCount
            acknowledge(0xff)
            answer(0x5c, checker.lastNoop, magic: 0x81)
            settle()
            collect()
            if isClosed || checker.messageCount == before { return }
        }
        fatalError("a stream sends messages for ever")
    }
}

/// Values of durable writes, each used once: one without an answer must not be seen.
private struct DurableValues {
    private static let prefix = Array("durable-".utf8)

    private var last: UInt32 = 0
    private var undecided: Set<[UInt8]> = []

    mutating func next() -> (opaque: UInt32, value: [UInt8]) {
        last += 1
        let value = DurableValues.value(last)
        undecided.insert(value)
        return (last, value)
    }

    mutating func noteAnswers(_ replies: [Reply]) {
        for reply in replies { undecided.remove(DurableValues.value(reply.opaque)) }
    }

    func check(_ value: [UInt8]) {
        require(!undecided.contains(value), "an undecided durable write was sent to a client")
    }

    private static func value(_ number: UInt32) -> [UInt8] { prefix + big(number) }
}
