import Testing

/// Runs the public interaction scripts with Divan's members.
///
/// `README.md` beside this folder describes how, what is not compared, and what shows that these
/// tests can fail.
@Suite(.enabled(if: !Fixtures.isMissing, "../shared/conformance/etcd-raft is missing"))
struct ScriptTests {
    static let played = [
        "async_storage_writes", "async_storage_writes_append_aba_race", "campaign",
        "campaign_learner_must_vote", "checkquorum", "confchange_disable_validation",
        "confchange_v1_add_single", "confchange_v1_remove_leader",
        "confchange_v1_remove_leader_stepdown", "confchange_v2_add_double_auto",
        "confchange_v2_add_double_implicit", "confchange_v2_add_single_auto",
        "confchange_v2_add_single_explicit", "confchange_v2_replace_leader",
        "confchange_v2_replace_leader_stepdown", "heartbeat_resp_recovers_from_probing",
        "lagging_commit", "prevote", "prevote_checkquorum", "probe_and_replicate",
        "replicate_pause", "single_node", "slow_follower_after_compaction",
        "snapshot_succeed_via_app_resp", "snapshot_succeed_via_app_resp_behind",
    ]

    /// Divan's members have no command to forget their leader: nothing in Divan needs it.
    static let notPlayed = [
        "forget_leader", "forget_leader_prevote_checkquorum", "forget_leader_read_only_lease_based",
    ]

    @Test func everyScriptIsPlayedOrListedAsUnsupported() throws {
        let names = try Fixtures.names(in: "testdata")
        #expect(names == (Self.played + Self.notPlayed).sorted().map { "\($0).txt" })
        for name in Self.notPlayed {
            var script = Script()
            #expect(throws: Script.Trouble.unknownCommand("forget-leader")) {
                try script.run(try Fixtures.directives(of: "testdata/\(name).txt"))
            }
        }
    }

    @Test(arguments: played)
    func playedScriptDiffersFromItsRecordOnlyAsListed(_ name: String) throws {
        var script = Script()
        try script.run(try Fixtures.directives(of: "testdata/\(name).txt"))
        #expect(script.comparisons >= 20)
        let found = script.differences.map(\.description)
        let known = KnownDifference.all[name] ?? [:]
        for difference in found where known[difference] == nil {
            Issue.record("\(name):\(difference)")
        }
        for difference in known.keys.sorted() where !found.contains(difference) {
            Issue.record("\(name):\(difference) is gone")
        }
    }

    /// Intermediate states may differ; the final state agrees, except for what is listed.
    @Test(arguments: played)
    func playedScriptEndsInTheStateOfItsRecord(_ name: String) throws {
        var script = Script()
        try script.run(try Fixtures.directives(of: "testdata/\(name).txt"))
        let matters = ["term", "role", "commit", "configuration", "role now", "leader now"]
        let standing = Set(script.standing.values.map(\.what)).intersection(matters)
        #expect(standing == KnownDifference.atEnd[name] ?? [])
    }

    /// A reader that skipped what it does not understand would find no differences.
    @Test func playedScriptsMakeMoreThan4500Comparisons() throws {
        var comparisons = 0
        for name in Self.played {
            var script = Script()
            try script.run(try Fixtures.directives(of: "testdata/\(name).txt"))
            comparisons += script.comparisons
        }
        #expect(comparisons > 4_500)
    }
}
