import Bytes
import Credentials
import JSON
import Persistence
import TestWorld

/// A lane's blocks: for any bytes on disk, reading returns documents or an error, and does not
/// crash.
final class BlockTarget {
    private let probe = BlockProbe()
    private let packed = ByteWriter()

    /// The first byte chooses the part of a block that the rest is, and whether the target
    /// compresses the rest first.
    func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        let rest = view.dropFirst(1)
        switch view[0] & 3 {
        case 0: probe.readOutline(rest)
        case 1: probe.readMeta(rest)
        case 2:
            // The fuzzer cannot compress, so the target compresses the input.
            packed.removeAll()
            LEB128.append(UInt64(rest.count), to: packed)
            _ = LZ4.compress(rest, to: packed)
            probe.readMeta(packed.view)
        default: probe.readBody(rest)
        }
    }
}

/// JSON: the two validators agree, and a parsed value survives writing and parsing.
final class JSONTarget {
    private let validator = JSONValidator()
    private let padded = ByteWriter()
    private let blanks = [UInt8](repeating: 0x20, count: 256 << 10)

    func run(_ view: ByteView) {
        let isDocument = validator.isDocument(view)
        // Above 256 KiB the other validator is used; blanks do not change the result.
        padded.removeAll()
        padded.append(view)
        blanks.withUnsafeBytes { padded.append(ByteView($0)) }
        require(validator.isDocument(padded.view) == isDocument, "the validators disagree")
        guard let value = JSONValue.parse(view) else { return }
        require(isDocument, "a text that parses is a valid document")
        let text = JSONWriter.text { write(value, to: &$0) }
        let again = text.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        require(again == value, "a written value parses to the same value")
    }

    private func write(_ value: JSONValue, to json: inout JSONWriter) {
        switch value {
        case .null: json.null()
        case .bool(let claim): json.value(claim)
        case .integer(let number): json.value(number)
        case .unsigned(let number): json.value(number)
        case .real(let number): json.value(number)
        case .string(let text): json.value(text)
        case .array(let elements):
            json.array { json in for element in elements { write(element, to: &json) } }
        case .object(let members):
            json.object { json in
                for member in members {
                    json.name(member.name)
                    write(member.value, to: &json)
                }
            }
        }
    }
}

/// Login messages: no input logs in without the password, and none crashes the parser.
final class SCRAMTarget {
    private let stored: StoredCredentials

    init() {
        stored = Array("a password beyond guessing".utf8).withUnsafeBytes { buffer in
            StoredCredentials.derive(password: ByteView(buffer), iterations: 1) { _ in
                [UInt8](repeating: 7, count: StoredCredentials.saltByteCount)
            }
        }
    }

    /// The first byte chooses the mechanism, the second how long the first message is.
    func run(_ view: ByteView) {
        guard view.count > 2 else { return }
        let mechanism = SCRAMMechanism.allCases[Int(view[0]) % SCRAMMechanism.allCases.count]
        let rest = view.dropFirst(2)
        let firstCount = min(Int(view[1]), rest.count)
        let challenge = SCRAMServer.start(
            mechanism,
            clientFirst: rest.slice(0, firstCount),
            serverNonce: Array("0123456789abcdef0123".utf8),
            rules: PasswordRules(decoySecret: [1, 2, 3])
        ) { $0 == "user" ? stored : nil }
        if case .answer(let server, let text) = challenge {
            require(text.allSatisfy { $0 != 0 } || rest.bytes.contains(0), "a challenge is text")
            if case .authenticated = server.finish(clientFinal: rest.dropFirst(firstCount)) {
                fatalError("a login succeeded without the password")
            }
        }
        _ = SCRAMMechanism(name: rest)
        _ = PasswordLogin(plain: rest)
        if let credentials = StoredCredentials(text: rest.text) {
            require(
                StoredCredentials(text: credentials.text) == credentials,
                "credentials survive their text form"
            )
        }
        if let bytes = Base64.decode(rest) {
            let text = bytes.withUnsafeBytes { Base64.encode(ByteView($0)) }
            let again = text.withUnsafeBytes { Base64.decode(ByteView($0)) }
            require(again == bytes, "Base64 changes the bytes")
        }
    }
}
