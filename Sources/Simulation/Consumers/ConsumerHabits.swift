internal import Bytes

/// The settings of one outside consumer, drawn from the seed.
struct ConsumerHabits {
    /// The name of its connections; a new connection closes an older one of the same name.
    let name: String
    /// The vBuckets that it follows.
    let vBuckets: [Int]
    /// The bytes that may be unacknowledged; nil without flow control.
    let bufferBytes: Int?
    let noopSeconds: UInt64
    /// Whether it answers a no-op with a request of the same opaque, as some clients do.
    let answersByRequest: Bool
    let hasValues: Bool
    /// Whether expirations have their own opcode.
    let asksForExpirations: Bool
    /// Whether a stream that it closes ends with a message.
    let asksForEnds: Bool
    /// The attributes that the consumer requests, if the node offers them.
    var form = AttributeForm.bodies

    init(_ number: Int, vBuckets count: Int, _ dice: inout SeededRandom) {
        name = "consumer-\(number)"
        let all = Array(0..<count)
        let isFiltered = dice.next() % 3 == 0
        // Drawn in any case, so that the next numbers do not depend on it.
        let chosen = all.filter { _ in dice.next() & 1 == 0 }
        vBuckets = isFiltered && !chosen.isEmpty ? chosen : all
        bufferBytes = [nil, 1_000, 10_000, 100_000][Int(dice.next() % 4)]
        noopSeconds = 1 + dice.next() % 2
        answersByRequest = dice.next() & 1 == 0
        hasValues = dice.next() % 6 != 0
        asksForExpirations = dice.next() % 3 != 0
        asksForEnds = dice.next() & 1 == 0
    }

    /// The flags of DCP_OPEN: a producer, if wanted without values, with times of deletions.
    func openFlags(_ form: AttributeForm) -> UInt32 {
        let attributes: UInt32 =
            switch form {
            case .bodies: 0
            case .systemOfDeletions: 0x04
            case .whole: 0x104
            }
        return 0x21 | (hasValues ? 0 : 0x08) | attributes
    }

    var controls: [(String, String)] {
        var controls = [
            ("set_noop_interval", "\(noopSeconds)"), ("enable_noop", "true"),
            ("enable_expiry_opcode", "\(asksForExpirations)"),
            ("send_stream_end_on_client_close_stream", "\(asksForEnds)"),
            ("set_priority", "high"),
        ]
        if let bufferBytes { controls.append(("connection_buffer_size", "\(bufferBytes)")) }
        return controls
    }
}
