import TestWorld

/// The requests in a stream, parsed independently of the decoder under test.
struct AskedRequests {
    private struct Question: Hashable {
        let opcode: UInt8
        let opaque: UInt32
    }

    /// The least and greatest number of answers to a request; STAT has any number.
    private var least: [Question: Int] = [:]
    private var most: [Question: Int] = [:]

    private static let quiet: Set<UInt8> = [
        0x09, 0x0d, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1e, 0x24, 0xa1,
        0xa3, 0xa5, 0xa9,
        // Answered only if they are refused: TAP_CONNECT, a no-op, an acknowledgement of bytes.
        0x40, 0x5c, 0x5d,
    ]

    init(_ stream: [UInt8]) {
        var place = 0
        while stream.count - place >= 24 {
            let header = stream[place..<place + 24]
            func number(_ from: Int, _ count: Int) -> Int {
                header[(place + from)..<(place + from + count)].reduce(0) { $0 << 8 | Int($1) }
            }
            let magic = stream[place]
            let body = number(8, 4)
            let isWhole = stream.count - place - 24 >= body
            let opcode = stream[place + 1]
            let question = Question(opcode: opcode, opaque: UInt32(number(12, 4)))
            // A request that is refused by its header may be answered before it is complete.
            most[question, default: 0] += 1
            let isRequest = magic == 0x80 || magic == 0x08
            guard isWhole, isRequest || magic == 0x18 || (0x81...0x83).contains(magic) else {
                break
            }
            if isRequest, !AskedRequests.quiet.contains(opcode) { least[question, default: 0] += 1 }
            place += 24 + body
        }
    }

    func check(_ replies: [Reply], isClosed: Bool) {
        var given: [Question: Int] = [:]
        for reply in replies {
            given[Question(opcode: reply.opcode, opaque: reply.opaque), default: 0] += 1
        }
        for (question, count) in given where question.opcode != 0x10 {
            require(
                count <= most[question] ?? 0,
                "opcode \(question.opcode) opaque \(question.opaque): \(count) answers"
            )
        }
        for question in given.keys {
            require(most[question] != nil, "opcode \(question.opcode): answered without a request")
        }
        guard !isClosed else { return }
        for (question, count) in least {
            require(
                given[question] ?? 0 >= count,
                "opcode \(question.opcode) opaque \(question.opaque): no answer"
            )
        }
    }
}
