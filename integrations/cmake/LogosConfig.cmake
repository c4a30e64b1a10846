# find_package(Logos) finds the command `logos` and defines logos_add_program.
#
#   Logos_EXECUTABLE  the command
#   Logos_FLAGS       flags of every `logos build`, such as -v or -j 2

if(CMAKE_VERSION VERSION_LESS 3.20)
  set(Logos_FOUND FALSE)
  set(Logos_NOT_FOUND_MESSAGE "Logos takes CMake 3.20 or later: earlier ones read depfiles for few generators")
  return()
endif()

get_filename_component(_logos_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_program(Logos_EXECUTABLE logos HINTS "${_logos_prefix}/bin" "${_logos_prefix}/Scripts" DOC "The command logos")
set(Logos_FLAGS "-q" CACHE STRING "Flags of every logos build")
mark_as_advanced(Logos_EXECUTABLE Logos_FLAGS)
unset(_logos_prefix)
if(NOT Logos_EXECUTABLE)
  set(Logos_FOUND FALSE)
  set(Logos_NOT_FOUND_MESSAGE "the command logos is not to be found: pip install logos-build, or set Logos_EXECUTABLE")
  return()
endif()

cmake_policy(PUSH)
cmake_policy(VERSION 3.20)

# logos_add_program(<name> SOURCE <program.lg, or a folder with a logos.toml> TARGET <target>
#                   [CHECKPOINT <file>] [WEIGHTS <folder>] [FAMILY <family>] [OPTIONS <key=value>...] [HOLD <step>...]
#                   [OUT <folder>] [DEPENDS <file or target>...] [JOB_POOL <pool>] [EXCLUDE_FROM_ALL])
#
# Adds the target <name>, which builds the artifact into OUT (<binary folder>/logos/<name>). The program may itself be the
# output of a custom command. Properties of the target: LOGOS_ARTIFACT, the artifact's folder; LOGOS_STAMP, a file that
# is new whenever the artifact may be, for the DEPENDS of commands that use it.
function(logos_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EXCLUDE_FROM_ALL" "SOURCE;TARGET;CHECKPOINT;WEIGHTS;FAMILY;OUT;JOB_POOL"
                        "OPTIONS;HOLD;DEPENDS")
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "logos_add_program(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(DEFINED arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "logos_add_program(${name}): no value for ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  foreach(needed SOURCE TARGET)
    if(NOT DEFINED arg_${needed})
      message(FATAL_ERROR "logos_add_program(${name}): give ${needed}")
    endif()
  endforeach()

  get_filename_component(source "${arg_SOURCE}" ABSOLUTE)
  set(main "${source}")
  if(IS_DIRECTORY "${source}")
    set(main "${source}/logos.toml")
  endif()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/logos/${name}")
  if(DEFINED arg_OUT)
    get_filename_component(out "${arg_OUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/logos/${name}.stamp")

  set(words --target "${arg_TARGET}" --out "${out}" --depfile "${stamp}.d")
  foreach(key CHECKPOINT WEIGHTS)
    if(DEFINED arg_${key})
      get_filename_component(path "${arg_${key}}" ABSOLUTE)
      string(TOLOWER "${key}" flag)
      list(APPEND words "--${flag}" "${path}")
    endif()
  endforeach()
  if(DEFINED arg_CHECKPOINT)
    get_filename_component(path "${arg_CHECKPOINT}" ABSOLUTE)
    list(APPEND arg_DEPENDS "${path}")
  endif()
  if(DEFINED arg_FAMILY)
    list(APPEND words --family "${arg_FAMILY}")
  endif()
  foreach(option IN LISTS arg_OPTIONS)
    list(APPEND words -D "${option}")
  endforeach()
  foreach(step IN LISTS arg_HOLD)
    list(APPEND words --hold "${step}")
  endforeach()
  set(pool)
  if(DEFINED arg_JOB_POOL)
    set(pool JOB_POOL "${arg_JOB_POOL}")
  endif()
  set(all ALL)
  if(arg_EXCLUDE_FROM_ALL)
    set(all)
  endif()

  # `logos build` looks closely where the outer build only knows that something is newer, and does no more than is due.
  # The stamp comes last, newer than all that the depfile names.
  separate_arguments(flags NATIVE_COMMAND "${Logos_FLAGS}")
  file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/logos")
  add_custom_command(
    OUTPUT "${stamp}"
    COMMAND "${Logos_EXECUTABLE}" build "${source}" ${words} ${flags}
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS "${main}" "${Logos_EXECUTABLE}" ${arg_DEPENDS}
    DEPFILE "${stamp}.d"
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "logos build ${name}"
    ${pool}
    VERBATIM)
  add_custom_target("${name}" ${all} DEPENDS "${stamp}")
  set_target_properties("${name}" PROPERTIES
    LOGOS_ARTIFACT "${out}"
    LOGOS_STAMP "${stamp}"
    ADDITIONAL_CLEAN_FILES "${out}")
endfunction()

cmake_policy(POP)
