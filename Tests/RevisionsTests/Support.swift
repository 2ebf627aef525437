import Bytes
import Foundation
import JSON
import Revisions
import SyncWire

func rev(_ text: String) -> RevisionID {
    guard let id = RevisionID(text) else { preconditionFailure("\(text) is no revision") }
    return id
}

func revs(_ texts: String...) -> [RevisionID] { texts.map(rev) }

extension RevisionTree {
    /// A tree of branches, each from its oldest revision on; `2-b!` is deleted.
    ///
    /// A branch that begins with a known revision continues it.
    init(_ branches: String...) {
        self.init()
        for branch in branches {
            var parent: RevisionID?
            for word in branch.split(separator: " ") {
                let id = rev(word.filter { $0 != "!" })
                if !contains(id) {
                    add(Addition(parent: parent, chain: [id]), isDeleted: word.hasSuffix("!"))
                }
                parent = id
            }
        }
    }

    var leafNames: [String] { leaves.map { "\($0.id)" + ($0.isDeleted ? "!" : "") } }
}

extension WriteRules {
    static func testing(
        revsLimit: Int = 1_000,
        allowsConflicts: Bool = true,
        acceptsRepeatedEdits: Bool = false,
        dialect: GatewayDialect = .first
    ) -> WriteRules {
        WriteRules(
            revsLimit: revsLimit,
            allowsConflicts: allowsConflicts,
            acceptsRepeatedEdits: acceptsRepeatedEdits,
            dialect: dialect,
            md5: MD5.digest
        )
    }
}

/// SHA-1 of the one content that tests attach; other bytes get a digest of their own length.
func fakeSHA1(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes == Array("hello".utf8) else {
        return [UInt8](repeating: UInt8(bytes.count), count: 20)
    }
    return "qvTGHdzF6KLavt4PO0gs2a6pQ00=".withView { Base64.decode($0) } ?? []
}

let helloDigest = "sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00="

func sent(_ json: String) throws -> [SentAttachment] {
    try SentAttachment.parse(JSONValue.parse(json), sha1: fakeSHA1)
}

/// MD5 (RFC 1321), to compare names of revisions with those of a real gateway.
enum MD5 {
    private static let shifts: [UInt32] = [
        [7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21],
    ].flatMap { row in (0..<4).flatMap { _ in row.map(UInt32.init) } }
    private static let sines = (0..<64).map { UInt32(abs(sin(Double($0 + 1))) * 4_294_967_296) }

    static func digest(_ input: [UInt8]) -> [UInt8] {
        var message = input + [0x80]
        while message.count % 64 != 56 { message.append(0) }
        let bits = UInt64(input.count) * 8
        message += (0..<8).map { UInt8(truncatingIfNeeded: bits >> (8 * UInt64($0))) }
        var state: [UInt32] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]
        for start in stride(from: 0, to: message.count, by: 64) {
            let words = (0..<16).map { word in
                (0..<4).reduce(UInt32(0)) { value, place in
                    value | UInt32(message[start + 4 * word + place]) << UInt32(8 * place)
                }
            }
            mix(words, into: &state)
        }
        return state.flatMap { word in
            (0..<4).map { UInt8(truncatingIfNeeded: word >> UInt32(8 * $0)) }
        }
    }

    private static func mix(_ words: [UInt32], into state: inout [UInt32]) {
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        for round in 0..<64 {
            let (mixed, word): (UInt32, Int) =
                switch round / 16 {
                case 0: (b & c | ~b & d, round)
                case 1: (d & b | ~d & c, (5 * round + 1) % 16)
                case 2: (b ^ c ^ d, (3 * round + 5) % 16)
                default: (c ^ (b | ~d), 7 * round % 16)
                }
            let sum = a &+ mixed &+ sines[round] &+ words[word]
            (a, d, c) = (d, c, b)
            b = b &+ (sum << shifts[round] | sum >> (32 - shifts[round]))
        }
        state = zip(state, [a, b, c, d]).map { $0 &+ $1 }
    }
}
