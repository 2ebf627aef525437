import Foundation
import Orchestration
import Testing
import Vocabulary

/// The keys whose absence or wrong type crashes a client.
@Suite struct ConfigurationJSONTests {
    func parse(_ bytes: [UInt8]) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    func bucketConfiguration(_ host: HostNaming, nodeHost: String = "127.0.0.1") throws -> [String:
        Any]
    {
        var state = BucketFormTests.state
        let ports = NodePorts(admin: 8_091, data: 11_210)
        let node = NodeAddress(number: NodeNumber(1), host: nodeHost, ports: ports)
        _ = state.apply(.setNode(node), at: 4)
        let bucket = try #require(state.bucket(named: "Taken"))
        return try parse(
            ConfigurationJSON.bucket(bucket, of: state, on: NodeNumber(1), host: host)
        )
    }

    @Test func bucketConfigurationHasEveryMandatoryKey() throws {
        let json = try bucketConfiguration(.placeholder)
        // Setting the address that a node already has changes no map.
        #expect(json["rev"] as? Int == 3)
        #expect(json["revEpoch"] as? Int == 1)
        #expect(json["name"] as? String == "Taken")
        #expect(json["nodeLocator"] as? String == "vbucket")
        #expect(json["uuid"] as? String == "bb")
        #expect(json["clusterCapabilitiesVer"] as? [Int] == [1, 0])
        #expect((json["clusterCapabilities"] as? [String: Any])?.isEmpty == true)
        #expect(
            json["bucketCapabilities"] as? [String]
                == [
                    "dcp", "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
                    "preserve_expiry", "durableWrite", "xattr", "tombstonedUserXAttrs",
                    "subdoc.AccessDeleted", "subdoc.ReplaceBodyWithXattr",
                    "subdoc.DocumentMacroSupport", "subdoc.ReviveDocument", "subdoc.ReplicaRead",
                    "subdoc.BinaryXattr", "dcp.IgnorePurgedTombstones",
                ]
        )
        let node = try #require((json["nodesExt"] as? [[String: Any]])?.first)
        #expect(node["services"] as? [String: Int] == ["mgmt": 8_091, "kv": 11_210])
        #expect(node["thisNode"] as? Bool == true)
        #expect(node["hostname"] == nil)
        let legacy = try #require((json["nodes"] as? [[String: Any]])?.first)
        #expect(legacy["hostname"] as? String == "$HOST:8091")
        #expect(legacy["ports"] as? [String: Int] == ["direct": 11_210])
        let map = try #require(json["vBucketServerMap"] as? [String: Any])
        #expect(map["hashAlgorithm"] as? String == "CRC")
        #expect(map["numReplicas"] as? Int == 1)
        #expect(map["serverList"] as? [String] == ["$HOST:11210"])
        let rows = try #require(map["vBucketMap"] as? [[Int]])
        #expect(rows.count == 1_024)
        #expect(rows.allSatisfy { $0 == [0, -1] })
        // Unimplemented capabilities must not be listed.
        for absent in ["couchApiBase", "ddocs", "collectionsManifestUid"] {
            #expect(json[absent] == nil)
        }
    }

    @Test func loopbackNodeIsNamedByTheRequestsAddressOverHTTP() throws {
        let json = try bucketConfiguration(.address("::1"))
        let map = try #require(json["vBucketServerMap"] as? [String: Any])
        #expect(map["serverList"] as? [String] == ["[::1]:11210"])
    }

    @Test func nodeWithAHostKeepsItInConfigurations() throws {
        let json = try bucketConfiguration(.placeholder, nodeHost: "10.0.0.7")
        let map = try #require(json["vBucketServerMap"] as? [String: Any])
        #expect(map["serverList"] as? [String] == ["10.0.0.7:11210"])
        let node = try #require((json["nodesExt"] as? [[String: Any]])?.first)
        #expect(node["hostname"] as? String == "10.0.0.7")
    }

    @Test func globalConfigurationHasNoBucketKeys() throws {
        let json = try parse(
            ConfigurationJSON.global(BucketFormTests.state, on: NodeNumber(1), host: .placeholder)
        )
        #expect(json["rev"] as? Int == 2)
        #expect(json["revEpoch"] as? Int == 1)
        #expect((json["nodesExt"] as? [[String: Any]])?.count == 1)
        for absent in ["name", "nodeLocator", "uuid", "vBucketServerMap", "clusterUUID"] {
            #expect(json[absent] == nil)
        }
    }

    @Test func stringsAreEscapedForJSON() throws {
        let text = "a\"b\\c\n\u{1}\u{e9}\u{1F600}/<script>"
        let json = JSONText.object([("k\"", .string(text)), ("n", .double(0.5))])
        let parsed = try parse(json.bytes)
        #expect(parsed["k\""] as? String == text)
        #expect(parsed["n"] as? Double == 0.5)
    }
}
