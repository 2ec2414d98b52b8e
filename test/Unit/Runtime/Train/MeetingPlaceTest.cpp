// Where processes without an MPI meet, by what launchers tell them.
#include "runtime/Train/MeetingPlace.h"
#include "runtime/Train/SlurmHosts.h"

#include <gtest/gtest.h>

#include <map>

using namespace cleave::rt;

namespace {

using Variables = std::map<std::string, std::string>;

StatusOr<tcp::MeetingPlace> placeOf(Variables variables, const Variables &more = {}) {
  for (const auto &[name, value] : more)
    variables[name] = value;
  const auto environment = [&](const char *name) -> const char * {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const std::optional<Launch> launch = detectLaunch(environment);
  EXPECT_TRUE(launch);
  return meetingPlaceOf(*launch, environment);
}

/// "1/4 at HOST PORT…", or what is wrong.
std::string textOf(const Variables &variables, const Variables &more = {}) {
  const auto place = placeOf(variables, more);
  if (!place.ok()) {
    EXPECT_EQ(place.error().kind, "runtime.bad_launch");
    EXPECT_EQ(place.error().exitCode, ExitCode::User);
    EXPECT_FALSE(place.error().suggestions.empty());
    return place.error().message + ": " + place.error().given;
  }
  std::string text = std::to_string(place->process) + "/" + std::to_string(place->processes) +
                     " at " + place->host;
  for (uint16_t port : place->ports)
    text += " " + std::to_string(port);
  return text + (place->isOneHost ? " alone" : "");
}

const Variables plain = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

TEST(MeetingPlace, IsWhereTheVariablesSay) {
  EXPECT_EQ(textOf(plain), "1/4 at node7 29500");
  EXPECT_EQ(textOf(plain, {{"LOCAL_WORLD_SIZE", "4"}}), "1/4 at node7 29500 alone");
  EXPECT_EQ(textOf(plain, {{"LOCAL_WORLD_SIZE", "2"}}), "1/4 at node7 29500");
  EXPECT_EQ(textOf(plain, {{"CLEAVE_PORT", "4000"}}), "1/4 at node7 4000");
  EXPECT_EQ(textOf(plain, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), "1/4 at node7 29500");
}

TEST(MeetingPlace, IsBehindThePortOfAnAgent) {
  const Variables agent = {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RUN_ID", "run"}};
  EXPECT_EQ(textOf(plain, agent), "1/4 at node7 29501 29502 29503 29504");
  Variables more = agent;
  more["CLEAVE_PORT"] = "4000";
  EXPECT_EQ(textOf(plain, more), "1/4 at node7 4000");
  more = agent;
  more["MASTER_PORT"] = "65534";
  EXPECT_EQ(textOf(plain, more), "1/4 at node7 65535");
  more["MASTER_PORT"] = "65535";
  EXPECT_EQ(textOf(plain, more),
            "there is no port behind that of torchrun's agent: MASTER_PORT = 65535");
}

TEST(MeetingPlace, WhatIsMissingOrMeansNothingIsRefused) {
  auto without = [](const char *name) {
    Variables variables = plain;
    variables[name] = "";
    return textOf(variables);
  };
  EXPECT_EQ(without("MASTER_ADDR"), "it is not known where process 0 is: MASTER_ADDR is not set");
  EXPECT_EQ(without("MASTER_PORT"),
            "it is not known at which port process 0 is: MASTER_PORT is not set");
  EXPECT_EQ(without("RANK"), "RANK is no number of one of 4 processes: RANK is not set");
  for (const char *number : {"4", "-1", "one", "1x"})
    EXPECT_EQ(textOf(plain, {{"RANK", number}}),
              std::string("RANK is no number of one of 4 processes: RANK = ") + number);
  for (const char *port : {"0", "65536", "-1", "http", "29500 "})
    EXPECT_EQ(textOf(plain, {{"MASTER_PORT", port}}),
              std::string("MASTER_PORT is no port: MASTER_PORT = ") + port);
  EXPECT_EQ(textOf(plain, {{"CLEAVE_PORT", "x"}}), "CLEAVE_PORT is no port: CLEAVE_PORT = x");
}

TEST(MeetingPlace, OfASlurmStepIsItsFirstHost) {
  const Variables srun = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_JOB_ID", "1234567"},
                          {"SLURM_STEP_NODELIST", "node[03-05,09]"},
                          {"SLURM_JOB_NODELIST", "node[01-20]"}};
  EXPECT_EQ(textOf(srun), "5/8 at node03 19567");
  EXPECT_EQ(textOf(srun, {{"SLURM_STEP_ID", "2"}}), "5/8 at node03 19769");
  EXPECT_EQ(textOf(srun, {{"SLURM_STEP_NUM_NODES", "1"}}), "5/8 at node03 19567 alone");
  EXPECT_EQ(textOf(srun, {{"SLURM_STEP_NODELIST", ""}}), "5/8 at node01 19567");
  EXPECT_EQ(textOf(srun, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "777"}}), "5/8 at other 777");
  EXPECT_EQ(textOf(srun, {{"SLURM_STEP_NODELIST", ""}, {"SLURM_JOB_NODELIST", ""}}),
            "it is not known where process 0 is: MASTER_ADDR is not set");
}

/// Runs that meet at one place one after the other, or beside each other.
TEST(MeetingPlace, TellsRunsApart) {
  auto runOf = [](const Variables &more) { return placeOf(plain, more)->run; };
  EXPECT_EQ(runOf({}), runOf({{"RANK", "2"}, {"MASTER_ADDR", "10.0.0.7"}}));
  EXPECT_NE(runOf({{"TORCHELASTIC_RUN_ID", "a"}}), runOf({{"TORCHELASTIC_RUN_ID", "b"}}));
  EXPECT_NE(runOf({{"TORCHELASTIC_RESTART_COUNT", "0"}}),
            runOf({{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  EXPECT_NE(runOf({}), runOf({{"CLEAVE_PORT", "1"}}));
}

TEST(SlurmHosts, TheFirstOfAList) {
  auto first = [](const char *list) { return firstSlurmHost(list).value_or("none"); };
  EXPECT_EQ(first("node1"), "node1");
  EXPECT_EQ(first("node1,node2"), "node1");
  EXPECT_EQ(first("node[01-03,07]"), "node01");
  EXPECT_EQ(first("node[07]"), "node07");
  EXPECT_EQ(first("node[7,1-3],other[1-2]"), "node7");
  EXPECT_EQ(first("gpu-a.site,node[1-3]"), "gpu-a.site");
  EXPECT_EQ(first("rack[0-3]node[10-12]-ib"), "rack0node10-ib");
  for (const char *list :
       {"", ",node1", "node[", "node[]", "node[a-b]", "node[01-03", "no de", "node;1"})
    EXPECT_EQ(first(list), "none") << list;
}

} // namespace
