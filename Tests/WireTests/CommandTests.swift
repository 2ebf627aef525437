import Bytes
import Foundation
import Testing
import Wire

@Suite struct CommandTests {
    @Test func quietCommandsHaveProtocolOpcodesAndALoudForm() {
        let quiet = Opcode.allCases.filter(\.isQuiet)
        let numbers = quiet.map(\.rawValue)
        #expect(numbers == hex("09 0d 1112131415161718191a 1e 24 a1 a3 a5 a9"))
        for opcode in quiet {
            #expect(!opcode.loud.isQuiet)
            #expect(opcode.name == opcode.loud.name + "Quiet")
            #expect(opcode.isMutation == opcode.loud.isMutation)
        }
    }

    @Test func mutationsAreTheCommandsThatChangeDocuments() {
        let loud = Opcode.allCases.filter { $0.isMutation && !$0.isQuiet }.map(\.rawValue)
        #expect(loud == hex("010203040506 0e0f 1c1d 23 a2a4a8 c7c8c9cacbcccdcecf d1 d3"))
    }

    @Test func helloListDecodesWithoutUnknownFeatures() throws {
        let list = hex("0003 7777 0006 000b 0012 0003")
        let set = try #require(list.withView { FeatureSet($0) })
        #expect(set.features == [.tcpNoDelay, .xattr, .json, .collections])
        let asked = hex("0012 7777 0006 0003 0008 000b 0003")
        let answer = written { writer in asked.withView { set.append(inOrderOf: $0, to: writer) } }
        #expect(answer == hex("0012 0006 0003 000b"))
        #expect(hex("00 03 00").withView { FeatureSet($0) } == nil)
        #expect(Feature.allCases.allSatisfy { $0.rawValue < 64 })
    }

    @Test func mapNotificationsNeedDuplexAndPreferTheBriefForm() {
        let all = FeatureSet(Feature.allCases)
        let brief = FeatureSet([.clusterMapNotificationBrief])
        #expect(FeatureSet.agreed(requested: brief, offered: all) == nil)
        let both = FeatureSet([.duplex, .clusterMapNotification, .clusterMapNotificationBrief])
        let agreed = FeatureSet.agreed(requested: both, offered: all)
        #expect(agreed?.features == [.duplex, .clusterMapNotificationBrief])
        let full = FeatureSet([.duplex, .clusterMapNotification, .json])
        #expect(FeatureSet.agreed(requested: both, offered: full)?.features.count == 2)
        #expect(
            FeatureSet.agreed(requested: FeatureSet([.json, .tracing]), offered: full)
                == FeatureSet([.json])
        )
    }

    @Test func errorMapHasEveryStatusAndRespectsTheRequestedVersion() throws {
        #expect(ErrorMap.json(versionAsked: 0) == nil)
        for (asked, answered) in [(1, 1), (2, 2), (3, 2), (65_535, 2)] {
            let json = try #require(ErrorMap.json(versionAsked: UInt16(asked)))
            let parsed = try JSONSerialization.jsonObject(with: Data(json))
            let map = try #require(parsed as? [String: Any])
            #expect(map["version"] as? Int == answered)
            #expect(map["revision"] as? Int == 1)
            let errors = try #require(map["errors"] as? [String: [String: Any]])
            #expect(errors.count == Status.allCases.count)
            for status in Status.allCases {
                let entry = try #require(errors[String(status.rawValue, radix: 16)])
                #expect((entry["name"] as? String)?.isEmpty == false)
                #expect((entry["desc"] as? String)?.isEmpty == false)
                #expect((entry["attrs"] as? [String])?.isEmpty == false)
            }
            let names = Set(errors.values.compactMap { $0["name"] as? String })
            #expect(names.count == Status.allCases.count)
        }
    }

    @Test func lockStatusesAreTemporaryFailuresWithoutExtendedErrors() {
        #expect(Status.locked.withoutExtendedErrors == .temporaryFailure)
        #expect(Status.notLocked.withoutExtendedErrors == .temporaryFailure)
        #expect(Status.keyExists.withoutExtendedErrors == .keyExists)
        #expect(Status.keyExists.text == "Data exists for key")
    }
}
