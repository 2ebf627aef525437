import DataService
import TestWorld
import Testing
import Vocabulary

/// Values that a client declares as JSON: the node examines each one, and stores what it found.
@Suite struct DeclaredDatatypeTests {
    private static let plainExtras = [UInt8](repeating: 0, count: 8)
    private static let malformed = [#"{"x": NaN}"#, #"1,{"id":"v"},2"#, #"{"x":1"#, ""]

    private let world = TestWorld()
    private let client: Client

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests", features: Features.usual + [0x06])
    }

    /// The statuses and datatypes of a GET, and of a sub-document lookup of `x`.
    private func read() -> [UInt16] {
        let get = client.ask(Ask.get("k"))
        let lookUp = client.ask(Ask.on(0xc5, "k", Array("x".utf8), extras: [0, 1, 0]))
        return get.flatMap { [$0.status, UInt16($0.datatype)] } + lookUp.map(\.status)
    }

    @Test(arguments: malformed, [UInt8(0x01), 0x02, 0x03])
    func valueThatIsNotJSONIsStoredWithoutDatatype(_ value: String, _ opcode: UInt8) {
        if opcode == 0x03 { _ = client.ask(Ask.set("k", "{}")) }
        let request = Ask.on(
            opcode,
            "k",
            Array(value.utf8),
            extras: Self.plainExtras,
            datatype: 1
        )
        #expect(client.ask(request).map(\.status) == [0])
        #expect(read() == [0, 0, 0xc6])
        #expect(client.ask(Ask.get("k")).map(\.text) == [value])
    }

    @Test func valueThatIsJSONKeepsItsDatatype() {
        let value = Array(#"{"x":1}"#.utf8)
        let request = Ask.on(0x01, "k", value, extras: Self.plainExtras, datatype: 1)
        #expect(client.ask(request).map(\.status) == [0])
        #expect(read() == [0, 1, 0])
    }

    @Test(arguments: malformed)
    func bodyOfForeignVersionThatIsNotJSONHasNoDatatype(_ body: String) throws {
        let values: [(bytes: [UInt8], said: UInt8)] = [
            (Array(body.utf8), 1), (TestWorld.stored([("u", "2")], body: body), 5),
        ]
        for (revision, value) in values.enumerated() {
            let extras = Self.plainExtras + big(UInt64(revision + 1)) + big(UInt64(100))
            let request = Ask.on(0xa2, "k", value.bytes, extras: extras, datatype: value.said)
            #expect(client.ask(request).map(\.status) == [0])
            #expect(read() == [0, 0, 0xc6])
            let expected: Datatype = value.said == 5 ? .xattr : []
            #expect(try world.find("k")?.datatype == expected)
        }
    }
}
